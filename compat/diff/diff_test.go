package diff

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/compat/cluster"
)

var (
	recordFlag  = flag.Bool("record", false, "record the golden files from Apache Kafka")
	kafkaFlag   = flag.Bool("kafka", false, "compare Apache Kafka itself with the golden files")
	casesFlag   = flag.String("cases", "", "run only the cases whose name matches this pattern")
	addressFlag = flag.String("address", "", "compare the broker that runs at this address")
)

// settings are given to every broker, ours and Kafka: groups form at once, so that cases are quick.
var settings = []string{"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=50", "offsets.topic.replication.factor=1"}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// sluice is our broker as a target.
type sluice struct{ *cluster.Broker }

func (s sluice) Restart() error { return s.TryRestart() }

// running is the address of a broker that somebody else started.
type running string

func (a running) Address() string { return string(a) }
func (a running) Restart() error  { return fmt.Errorf("a foreign broker is not restarted") }

// TestAgainstKafka sends every case to a broker and compares what it did with what Kafka did.
func TestAgainstKafka(t *testing.T) {
	scripts, err := loadScripts("testdata")
	if err != nil {
		t.Fatal(err)
	}
	pattern, err := regexp.Compile(*casesFlag)
	if err != nil {
		t.Fatal(err)
	}
	var results []result
	for _, f := range groupBySettings(scripts) {
		cases := f.selected(pattern)
		if len(cases) == 0 {
			continue
		}
		broker, stop := startTarget(t, f.settings)
		got, err := runAll(broker, cases, strconv.FormatInt(time.Now().UnixMilli(), 36))
		stop()
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, got...)
	}
	reportSlow(t, results)
	for _, r := range results {
		if r.err != nil && *recordFlag {
			t.Errorf("%s: %v", r.c.name, r.err)
		}
	}
	if *recordFlag {
		if !t.Failed() {
			record(t, scripts, results)
		}
		return
	}
	check(t, results)
}

// reportSlow names the cases that take long, which is what makes the whole slow.
func reportSlow(t *testing.T, results []result) {
	sorted := slices.SortedFunc(slices.Values(results), func(a, b result) int { return int(b.took - a.took) })
	for _, r := range sorted[:min(8, len(sorted))] {
		t.Logf("%6d ms %s", r.took.Milliseconds(), r.c.name)
	}
}

// startTarget starts the broker that the flags ask for. One runs at a time; stop ends it.
func startTarget(t *testing.T, extra []string) (broker target, stop func()) {
	t.Helper()
	all := append(append([]string{}, settings...), extra...)
	switch {
	case *addressFlag != "":
		return running(*addressFlag), func() {}
	case *recordFlag || *kafkaFlag:
		k, err := startKafka(cluster.Root(), t.TempDir(), all)
		stop := func() {
			if k == nil {
				return
			}
			if err := k.stop(); err != nil {
				t.Error(err)
			}
		}
		t.Cleanup(stop)
		if err != nil {
			t.Fatal(err)
		}
		return k, stop
	}
	b := cluster.Start(t, cluster.Options{Overrides: all})
	return sluice{b}, func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func goldenPath(script string) string {
	return filepath.Join("..", "golden", script+".golden")
}

// record writes what Kafka did, keeping the earlier text of cases that did not run this time.
func record(t *testing.T, scripts []*script, results []result) {
	t.Helper()
	fresh := map[string]transcript{}
	for _, r := range results {
		fresh[r.c.name] = r.transcript
	}
	for _, s := range scripts {
		old := goldenBlocks(t, s.name)
		var b strings.Builder
		fmt.Fprintf(&b, "# What Apache Kafka 4.4.0 did in testdata/%s.txt. Made by go test ./compat/diff -record.\n\n", s.name)
		for _, c := range s.cases {
			if made, ok := fresh[c.name]; ok {
				made.write(&b)
			} else if kept, ok := old[c.name]; ok {
				b.WriteString(kept)
			}
		}
		if err := os.WriteFile(goldenPath(s.name), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("recorded %d cases", len(results))
}

// goldenBlocks returns the text of each case of a golden file, hints and all.
func goldenBlocks(t *testing.T, script string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(goldenPath(script))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, block := range strings.Split("\n"+string(text), "\ncase ")[1:] {
		name, _, _ := strings.Cut(block, "\n")
		out[name] = "case " + strings.TrimRight(block, "\n") + "\n\n"
	}
	return out
}

// loadGolden reads the golden file of a script; a file that is not there holds no cases.
func loadGolden(script string) (map[string]transcript, error) {
	out := map[string]transcript{}
	text, err := os.ReadFile(goldenPath(script))
	if os.IsNotExist(err) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := parseTranscripts(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", goldenPath(script), err)
	}
	for _, made := range list {
		out[made.name] = made
	}
	return out, nil
}

// loadDifferences reads differences.txt.
func loadDifferences(t *testing.T) []known {
	t.Helper()
	text, err := os.ReadFile("differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseDifferences(string(text))
	if err != nil {
		t.Fatalf("differences.txt: %v", err)
	}
	return list
}

// check compares results with the golden files and with the list of known differences.
func check(t *testing.T, results []result) {
	explained := loadDifferences(t)
	if *kafkaFlag {
		explained = nil
	}
	used := map[int]bool{}
	goldens := map[string]map[string]transcript{}
	for _, r := range results {
		t.Run(r.c.name, func(t *testing.T) {
			script, _, _ := strings.Cut(r.c.name, "/")
			if goldens[script] == nil {
				golden, err := loadGolden(script)
				if err != nil {
					t.Fatal(err)
				}
				goldens[script] = golden
			}
			want, ok := goldens[script][r.c.name]
			if !ok {
				t.Fatal("Kafka's answers were never recorded")
			}
			found := compare(want, reparsed(t, r.transcript))
			unexplained, lines := explain(explained, found)
			for line := range lines {
				used[line] = true
			}
			for _, d := range unexplained {
				t.Errorf("%s", d)
			}
			if r.err != nil {
				t.Errorf("stopped at %v", r.err)
			}
		})
	}
	if *casesFlag != "" || *kafkaFlag {
		return
	}
	for _, k := range explained {
		// A reason that begins with "sometimes" depends on timing.
		if !used[k.line] && !strings.HasPrefix(k.reason, "sometimes") {
			t.Errorf("differences.txt:%d is stale: nothing differs there", k.line)
		}
	}
}

// reparsed writes and reads a transcript, so that it is compared in the form that golden files have.
func reparsed(t *testing.T, made transcript) transcript {
	t.Helper()
	var b strings.Builder
	made.write(&b)
	list, err := parseTranscripts(b.String())
	if err != nil || len(list) != 1 {
		t.Fatalf("own transcript does not parse: %v\n%s", err, b.String())
	}
	return list[0]
}
