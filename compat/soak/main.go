// Command soak runs the proofs of the soak tier at their full amounts and writes what came of each
// into the ledger, docs/soak/ledger.md.
//
//	make soak ──▶ soak ── SLUICE_SOAK_AMOUNT, SLUICE_SOAK_SEED ──▶ go test -run Proof
//	                └──▶ ledger.md: date, commit, proof, amount, seeds, result
//
// Invariants:
//
//	S1  Every run gets a line, failed ones too, and lines are only ever appended.
//	S2  A run counts as ok only when the test passed and reported the amount that was asked for.
//	S3  A commit with a + behind it names a tree with changes of its own: its line proves little.
//
// `soak -list` names the proofs, `-only` runs those that match, `-seed` begins elsewhere. The exit
// status is 1 when a run failed. Goroutines: none.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sluicelog/sluice/compat/cluster"
	"github.com/sluicelog/sluice/kafkaproto/tier"
)

// proof is one test that counts by amount. Runs of a proof follow one another with other seeds.
type proof struct {
	name, pkg, test string
	amount          uint64 // per run
	runs            int
}

// proofs are the full numbers of issue 3 and ruling 29.
var proofs = []proof{
	{"kill -9 under load", "./compat/crash", "TestKillUnderLoad", 60, 4},
	{"one of three brokers killed, stopped, paused", "./compat/crash", "TestKillOneOfThree", 100, 1},
	{"brokers together under faults", "./compat/sim", "TestWorlds", 10000, 1},
	{"power loss, log", "./log/store", "TestCrash", 1000, 1},
	{"power loss, transactions in the log", "./log/store", "TestCrashTransactions", 1000, 1},
	{"rules of recovery", "./log/store", "TestRules", 5000, 1},
	{"rules of recovery, every byte", "./log/store", "TestRulesAtEveryByte", 100, 1},
	{"power loss, group offsets", "./controller/group", "TestPowerLoss", 200, 1},
	{"power loss, metadata", "./controller/quorum", "TestCrashes", 1000, 1},
	{"power loss, producer ids", "./txn/pid", "TestRestart", 200, 1},
}

func main() {
	list := flag.Bool("list", false, "name the proofs and end")
	only := flag.String("only", "", "run the proofs whose name matches this regular expression")
	seed := flag.Uint64("seed", uint64(time.Now().Unix()), "first seed")
	ledger := flag.String("ledger", filepath.Join(cluster.Root(), "docs", "soak", "ledger.md"), "file to append to")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	failed := false
	for _, p := range proofs {
		if !chosen.MatchString(p.name) {
			continue
		}
		if *list {
			fmt.Printf("%s\t%d x %d\t%s %s\n", p.name, p.runs, p.amount, p.pkg, p.test)
			continue
		}
		for range p.runs {
			line, ok := p.run(*seed)
			*seed += p.amount
			failed = failed || !ok
			fmt.Print(line)
			if err := appendLine(*ledger, line); err != nil {
				fmt.Fprintln(os.Stderr, "soak:", err)
				os.Exit(1)
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

// run runs the proof once and returns its line of the ledger.
func (p proof) run(seed uint64) (line string, ok bool) {
	began := time.Now()
	command := exec.Command("go", "test", "-count=1", "-timeout=2h", "-v", "-run", "^"+p.test+"$", p.pkg)
	command.Dir = cluster.Root()
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", tier.AmountVar, p.amount), fmt.Sprintf("%s=%d", tier.SeedVar, seed))
	out, err := command.CombinedOutput()
	told, counted := reported(string(out), p.amount, seed)
	result := "ok"
	if err != nil || !counted {
		result = "FAILED"
		keep := filepath.Join(os.TempDir(), fmt.Sprintf("soak-%s-%d.log", p.test, seed))
		_ = os.WriteFile(keep, out, 0o644) // the line stands without it
		fmt.Fprintf(os.Stderr, "%s failed (%v), output in %s\n", p.name, err, keep)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %s | %s |\n", began.UTC().Format("2006-01-02 15:04"), commit(),
		p.name, p.amount, p.seeds(seed), result, told, time.Since(began).Round(time.Second)), err == nil && counted
}

// seeds is how the ledger names them.
func (p proof) seeds(first uint64) string {
	if p.runs > 1 {
		return fmt.Sprint(first) // the amount counts something else
	}
	return fmt.Sprintf("%d–%d", first, first+p.amount-1)
}

// reported finds what the test reported of the amount and seed that it was asked for.
func reported(out string, amount, seed uint64) (told string, ok bool) {
	_, told, ok = strings.Cut(out, fmt.Sprintf("%samount=%d seed=%d ", tier.ReportMark, amount, seed))
	told, _, _ = strings.Cut(told, "\n")
	return told, ok
}

// commit names what is being tested; a + says that tracked files differ from it.
func commit() string {
	git := func(args ...string) string {
		command := exec.Command("git", args...)
		command.Dir = cluster.Root()
		out, err := command.Output()
		if err != nil {
			return "?"
		}
		return strings.TrimSpace(string(out))
	}
	id := git("rev-parse", "--short", "HEAD")
	if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/soak") != "" {
		id += "+"
	}
	return id
}

// header opens a new ledger.
const header = `# Ledger of the soak tier

Appended by ` + "`make soak`" + `, never edited. A line counts for the commit it names; a + there marks a tree with
changes that were not committed. Amounts are kills or seeds; each seed of a power-loss proof holds
several crashes.

| date (UTC) | commit | proof | amount | seeds | result | reported | took |
|---|---|---|---|---|---|---|---|
`

func appendLine(name, line string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if at, err := f.Seek(0, 2); err == nil && at == 0 {
		line = header + line
	}
	_, err = f.WriteString(line)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
