package tidy

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/ratchet.txt from the tree")

const ratchetFile = "testdata/ratchet.txt"

// ratchet is the list of what breaks a soft rule and may not get worse: rule and subject to size.
type ratchet struct {
	sync.Mutex
	allowed map[string]int
	found   map[string]int
}

var held = ratchet{found: map[string]int{}}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := held.load(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if *update && code == 0 {
		if err := held.save(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(code)
}

func (r *ratchet) load() error {
	text, err := os.ReadFile(ratchetFile)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	r.allowed = map[string]int{}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		line := scan.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		var rule, subject string
		var size int
		if _, err := fmt.Sscanf(line, "%s %s %d", &rule, &subject, &size); err != nil {
			return fmt.Errorf("%s: %q: %w", ratchetFile, line, err)
		}
		r.allowed[rule+" "+subject] = size
	}
	return nil
}

func (r *ratchet) save() error {
	var b strings.Builder
	b.WriteString("# What breaks a soft rule and may shrink but not grow: rule, subject, size. Written by make generate.\n")
	var keys []string
	for k := range r.found {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "%s %d\n", k, r.found[k])
	}
	return os.WriteFile(ratchetFile, []byte(b.String()), 0o644)
}

// over reports a subject that breaks a soft rule, unless the list allows that size.
func (r *ratchet) over(t *testing.T, rule, subject string, size int, why string) {
	t.Helper()
	r.Lock()
	defer r.Unlock()
	key := rule + " " + subject
	r.found[key] = size
	switch allowed, ok := r.allowed[key]; {
	case *update:
	case !ok:
		t.Errorf("%s: %s", subject, why)
	case size > allowed:
		t.Errorf("%s grew from %d: %s", subject, allowed, why)
	}
}
