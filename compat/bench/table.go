package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluicelog/sluice/compat/cluster"
)

// table collects lines and prints them as Markdown.
type table struct {
	s    settings
	rows []string
}

func newTable(s settings) *table { return &table{s: s} }

// add puts one line in. A line of a case has its goal as a ratio; one of start and idle, where Kafka
// has no mode, as a bound of ours.
func (t *table) add(name, ours, their string, l line, figures [][]float64) {
	show := func(f []float64) string {
		s := fmt.Sprintf(l.format, middle(f))
		if len(f) > 1 {
			s += fmt.Sprintf(" ("+l.format+"–"+l.format+")", slices.Min(f), slices.Max(f))
		}
		return s
	}
	kafka, ratio, goal, met := "", "", "", ""
	us := middle(figures[0])
	judged := us
	if len(figures) > 1 {
		kafka, ratio = show(figures[1]), fmt.Sprintf("%.2f", us/middle(figures[1]))
		if their != "" {
			judged = us / middle(figures[1])
		}
	}
	if l.goal != 0 && (their == "" || len(figures) > 1) {
		sign, ok := "≥", judged >= l.goal
		if l.less {
			sign, ok = "≤", judged <= l.goal
		}
		goal = fmt.Sprintf("%s %g", sign, l.goal)
		if their != "" {
			goal += " ×"
		}
		met = map[bool]string{true: "yes", false: "no"}[ok]
	}
	t.rows = append(t.rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s |",
		name, l.what, ours, their, show(figures[0]), kafka, ratio, goal, met))
}

// middle is the median, the mean of the two in the middle of an even number.
func middle(f []float64) float64 {
	s := slices.Sorted(slices.Values(f))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (t *table) print(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, commit %s, %d cores, %s, %s. Median of %d runs each, in turn (least–most); Kafka 4.4.0 warmed up for %s.\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), head(), runtime.NumCPU(), kernel(), runtime.Version(), t.s.pairs, t.s.warm)
	fmt.Fprintf(&b, "Load: franz-go in a process of its own, no compression, acks=all, idempotent, round robin, linger 5 ms (end to end: 0).\n\n")
	fmt.Fprintf(&b, "| case | figure | sluice mode | Kafka mode | sluice | Kafka | ratio | goal | met |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintln(&b, r)
	}
	fmt.Print(b.String())
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func head() string {
	c := exec.Command("git", "describe", "--always", "--dirty")
	c.Dir = cluster.Root()
	out, err := c.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func kernel() string {
	out, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(out))
}

// fileName makes a name out of a case's.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == ',' {
			return '-'
		}
		return r
	}, name)
}

// profile fetches a CPU profile of the broker, d long, after a wait. It only tells of failures: the
// measured run goes on.
func (b *broker) profile(name string, wait, d time.Duration) {
	time.Sleep(wait)
	if err := b.fetchProfile(name, d); err != nil {
		progress("profile: %v", err)
	}
}

func (b *broker) fetchProfile(name string, d time.Duration) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.http, max(1, int(d.Seconds()))))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
