// Command bench puts the same franz-go load on this broker and on Apache Kafka in turn and prints
// what each needed for it, as ratios.
//
//	make bench-kafka ──▶ bench ──exec──▶ sluice serve        one case: A B A B …, a topic each
//	                       │  └──exec──▶ Kafka (warmed up)
//	                       └──exec──▶ bench load ──TCP──▶ the one whose turn it is
//	                                     └── /proc/PID/stat of the broker at both ends of the spell
//
// Invariants:
//
//	M1  Both brokers get the same load from the same binary, one at a time, on the same file system;
//	    the other one idles meanwhile.
//	M2  Every line names both modes: what was synced before an acknowledgement decides the rest.
//	M3  A figure is the median over the pairs, and its ratio that of the medians; the spread is shown.
//	M4  A topic's files are gone before the next run begins.
//
// CPU seconds per GB hold on a noisy machine; rates and latencies are only worth their ratio. The
// go benchmarks of this folder measure the same paths over loopback within one process, with
// allocations.
//
// Goroutines: the load generator's sender; none in the driver beside the profile's download.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "load" {
		err = runLoad(os.Args[2:], os.Stdout)
	} else {
		err = compare(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the driver's flags.
type settings struct {
	dir, only, profiles, out string
	pairs                    int
	warm                     time.Duration
	kafka                    bool
}

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&s.dir, "dir", "", "directory for both brokers' data; a temporary one when empty")
	f.StringVar(&s.only, "only", "", "run the cases whose name and modes match this regular expression")
	f.StringVar(&s.profiles, "profiles", "", "directory for CPU profiles of this broker, one per case")
	f.StringVar(&s.out, "out", "", "file for the table, beside standard output")
	f.IntVar(&s.pairs, "pairs", 3, "runs on each broker")
	f.DurationVar(&s.warm, "warm", time.Minute, "Kafka's warm-up")
	f.BoolVar(&s.kafka, "kafka", true, "run Kafka too")
	return s, f.Parse(args)
}

// compare runs everything and prints the table.
func compare(args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(s.only)
	if err != nil {
		return err
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(s.dir)
	}
	brokers, err := prepare(s)
	if err != nil {
		return err
	}
	t := newTable(s)
	if only.MatchString("start idle") {
		if err := startAndIdle(t, brokers, s.pairs); err != nil {
			return err
		}
	}
	for _, b := range brokers {
		if _, err := b.start(); err != nil {
			return err
		}
		defer b.stop()
	}
	if len(brokers) > 1 {
		progress("warming Kafka up for %s", s.warm)
		if err := warmUp(brokers[1], s.warm); err != nil {
			return err
		}
	}
	for _, c := range cases() {
		if !only.MatchString(fmt.Sprintf("%s %s %s", c.name, c.ours.name, c.their.name)) {
			continue
		}
		if err := c.run(t, brokers, s); err != nil {
			return err
		}
	}
	return t.print(s.out)
}

// prepare builds ours and formats Kafka's directory; nothing runs when it returns.
func prepare(s settings) ([]*broker, error) {
	path, err := buildSluice(s.dir)
	if err != nil {
		return nil, err
	}
	ours, err := newSluice(path, s.dir)
	if err != nil || !s.kafka {
		return []*broker{ours}, err
	}
	progress("formatting Kafka's directory")
	their, err := newKafka(s.dir)
	return []*broker{ours, their}, err
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// run measures the case in turn on each broker and adds its lines.
func (c benchCase) run(t *table, brokers []*broker, s settings) error {
	results := make([][]loadResult, len(brokers))
	for pair := range s.pairs {
		for i, b := range brokers {
			m := []mode{c.ours, c.their}[i]
			var during func()
			if i == 0 && s.profiles != "" && pair == 0 {
				name := filepath.Join(s.profiles, fileName(c.name+" "+m.name)+".pprof")
				during = func() { b.profile(name, c.load.Warm+time.Second, c.load.Spell-2*time.Second) }
			}
			r, err := c.measure(b, m, during)
			if err != nil {
				return err
			}
			progress("%s, %s %s: %.0f/s, %.2f CPU-s/GB, p50 %.2f p99 %.2f p99.9 %.2f ms", c.name, b.name, m.name,
				r.rate(), r.cpuPerGB(), r.P50, r.P99, r.P999)
			results[i] = append(results[i], r)
		}
	}
	for _, l := range c.lines {
		var figures [][]float64
		for _, rs := range results {
			var f []float64
			for _, r := range rs {
				f = append(f, l.of(r))
			}
			figures = append(figures, f)
		}
		t.add(c.name, c.ours.name, c.their.name, l, figures)
	}
	return nil
}

// startAndIdle measures starts, on directories that exist, and what a broker holds ten seconds after.
func startAndIdle(t *table, brokers []*broker, pairs int) error {
	first, resident, busy := make([][]float64, len(brokers)), make([][]float64, len(brokers)), make([][]float64, len(brokers))
	for range pairs {
		for i, b := range brokers {
			took, err := b.start()
			if err != nil {
				return err
			}
			time.Sleep(5 * time.Second)
			before, err := cpuSeconds(b.pid())
			if err != nil {
				return err
			}
			time.Sleep(5 * time.Second)
			after, err := cpuSeconds(b.pid())
			if err != nil {
				return err
			}
			mb, err := residentMB(b.pid())
			if err != nil {
				return err
			}
			b.stop()
			progress("%s: first answer after %s, idle %.1f MB, %.1f %% of a core", b.name, took, mb, (after-before)/5*100)
			first[i] = append(first[i], took.Seconds()*1e3)
			resident[i], busy[i] = append(resident[i], mb), append(busy[i], (after-before)/5*100)
		}
	}
	t.add("start", "serve", "", line{what: "exec to first answer, ms", format: "%.0f", goal: 50, less: true}, first)
	t.add("idle", "serve", "", line{what: "resident MB", format: "%.1f", goal: 40, less: true}, resident)
	t.add("idle", "serve", "", line{what: "% of a core", format: "%.1f", less: true}, busy)
	return nil
}
