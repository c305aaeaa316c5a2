// Command mutants plants bugs, one at a time, and tells after how many seeds compat/sim finds each.
//
//	table.go ──► copy of one file with the bug ──► go test -c -overlay ──► seeds from 0 until one fails
//	                                                                          └─► a line of the table
//
// Invariants:
//
//	M1  The tree is never written to: the bug lies in a file beside it.
//	M2  A bug that does not compile, or whose place is gone, is an error and not a success.
//
// `-seeds` is how many are tried, `-only` picks bugs by a regular expression. The exit status is 1 when
// a bug could not be planted. Goroutines: none.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluicelog/sluice/compat/cluster"
	"github.com/sluicelog/sluice/kafkaproto/tier"
)

func main() {
	seeds := flag.Int("seeds", 400, "seeds to try for each bug")
	only := flag.String("only", "", "plant the bugs whose name matches this regular expression")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	fmt.Print("| bug | seeds until found | found by |\n|---|---|---|\n")
	failed := false
	for _, m := range mutants {
		if !chosen.MatchString(m.name) {
			continue
		}
		line, err := m.try(*seeds)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutants: %s: %v\n", m.name, err)
			failed = true
			continue
		}
		fmt.Println(line)
	}
	if failed {
		os.Exit(1)
	}
}

// planted is the file with the bug.
func (m mutant) planted() (string, error) {
	text, err := os.ReadFile(filepath.Join(cluster.Root(), m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has the place %d times", m.file, n)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

// try plants the bug and runs the simulation until it fails.
func (m mutant) try(seeds int) (line string, err error) {
	text, err := m.planted()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
	name, overlay, binary := filepath.Join(dir, "bug.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(cluster.Root(), m.file): name}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(name, []byte(text), 0o644), os.WriteFile(overlay, list, 0o644)); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./compat/sim")
	build.Dir = cluster.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	run := exec.Command(binary, "-test.run=^TestWorlds$", "-test.failfast", "-test.v", "-test.timeout=5m")
	run.Dir = filepath.Join(cluster.Root(), "compat", "sim")
	run.Env = append(os.Environ(), fmt.Sprintf("%s=%d", tier.AmountVar, seeds), tier.SeedVar+"=0")
	began := time.Now()
	out, err := run.CombinedOutput()
	found, how := caught(string(out), err)
	if found < 0 {
		return fmt.Sprintf("| %s | not in %d | %s |", m.name, seeds, how), nil
	}
	return fmt.Sprintf("| %s | %d (%s) | %s |", m.name, found+1, time.Since(began).Round(100*time.Millisecond), how), nil
}

var (
	brokenLine = regexp.MustCompile(`seed (\d+) \((\w+)\)(?:, ([\w-]+))?: (.*)`)
	begunLine  = regexp.MustCompile(`=== RUN +TestWorlds/(\d+)`)
)

// caught finds in a run's output which seed failed, -1 for none, and by what.
func caught(out string, err error) (seed int, how string) {
	if err == nil {
		return -1, ""
	}
	if m := brokenLine.FindStringSubmatch(out); m != nil {
		seed, _ = strconv.Atoi(m[1])
		if m[3] != "" {
			return seed, m[3]
		}
		return seed, "panic: " + short(m[4])
	}
	all := begunLine.FindAllStringSubmatch(out, -1)
	if at := strings.Index(out, "\npanic: "); at >= 0 && len(all) > 0 {
		seed, _ = strconv.Atoi(all[len(all)-1][1])
		return seed, short(out[at+1:])
	}
	return -1, fmt.Sprintf("%v: %s", err, short(out)) // somebody has ended it: it proves nothing
}

// short is the beginning of a message, without what differs from run to run.
func short(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = strings.ReplaceAll(s, "|", "/")
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return s
}
