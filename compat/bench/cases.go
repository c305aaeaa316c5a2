package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// mode is a broker's durability in one line of the table.
type mode struct {
	name   string
	config map[string]string // of the topic
}

var (
	strict   = mode{"strict", map[string]string{"sluice.durability": "strict"}}
	relaxed  = mode{"relaxed", map[string]string{"sluice.durability": "relaxed"}}
	unsynced = mode{"unsynced", nil}
	flushed  = mode{"flush.messages=1", map[string]string{"flush.messages": "1"}}
)

// benchCase is one load on both brokers. Lines say what of it is compared.
type benchCase struct {
	name        string
	ours, their mode
	load        loadOptions
	lines       []line
}

// line is one figure of a case. A goal bounds ours/Kafka's: from above where less is better.
type line struct {
	what   string
	of     func(loadResult) float64
	format string
	goal   float64 // 0: none
	less   bool
}

var (
	rate   = line{what: "records/s", of: loadResult.rate, format: "%.0f"}
	cpu    = line{what: "broker CPU-s/GB", of: loadResult.cpuPerGB, format: "%.2f", less: true}
	median = line{what: "p50 ms", of: func(r loadResult) float64 { return r.P50 }, format: "%.2f", less: true}
	tail   = line{what: "p99 ms", of: func(r loadResult) float64 { return r.P99 }, format: "%.2f", less: true}
)

func (l line) atMost(goal float64) line  { l.goal = goal; return l }
func (l line) atLeast(goal float64) line { l.goal = goal; return l }

// cases are the loads of issue 3 with the goals that a first version owes.
func cases() []benchCase {
	var all []benchCase
	produce := func(name string, partitions int, warm time.Duration, rateLine line) {
		for _, ours := range []mode{strict, relaxed} {
			all = append(all, benchCase{
				fmt.Sprintf("produce 1 KiB, %s", name), ours, unsynced,
				loadOptions{Kind: "produce", Partitions: partitions, Size: 1024, Linger: 5 * time.Millisecond, Warm: warm, Spell: 8 * time.Second},
				[]line{rateLine, cpu.atMost(0.5)},
			})
		}
	}
	produce("1 partitions", 1, 2*time.Second, rate.atLeast(1))
	produce("64 partitions", 64, 2*time.Second, rate.atLeast(1))
	// Kafka needs some ten seconds with a new topic of this many partitions to come up to speed, so that
	// both are told: the first seconds and what follows.
	produce("1000 partitions, first 10 s", 1000, 2*time.Second, rate.atLeast(5))
	produce("1000 partitions, after 15 s", 1000, 15*time.Second, rate)
	for _, partitions := range []int{1, 64} {
		all = append(all, benchCase{
			fmt.Sprintf("consume 1 KiB, %d partitions", partitions), strict, unsynced,
			loadOptions{Kind: "consume", Partitions: partitions, Size: 1024, Records: 1_500_000, Linger: 5 * time.Millisecond, Spell: 8 * time.Second},
			[]line{rate, cpu.atMost(1)},
		})
	}
	for _, r := range []int{1000, 5000} {
		for _, pair := range [][2]mode{{relaxed, unsynced}, {strict, flushed}} {
			all = append(all, benchCase{
				fmt.Sprintf("end to end 1 KiB at %d/s, 1 partition", r), pair[0], pair[1],
				loadOptions{Kind: "e2e", Partitions: 1, Size: 1024, Rate: r, Warm: 3 * time.Second, Spell: 12 * time.Second},
				[]line{median, tail.atMost(0.5)},
			})
		}
	}
	return all
}

// generate runs the load generator as a process of its own.
func generate(o loadOptions) (loadResult, error) {
	var r loadResult
	c := exec.Command(os.Args[0], o.arguments()...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return r, fmt.Errorf("load generator: %w\n%s", err, errs.Bytes())
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// measure runs the case's load once on a broker, after a fill where it reads. during, if not nil,
// runs beside the measured load.
func (c benchCase) measure(b *broker, m mode, during func()) (r loadResult, err error) {
	err = b.withTopic(c.load.Partitions, m.config, func(topic string) error {
		o := c.load
		o.Address, o.Topic, o.PID = b.address, topic, b.pid()
		if o.Kind == "consume" {
			o.Kind = "fill"
			if _, err := generate(o); err != nil {
				return err
			}
			o.Kind = "consume"
		}
		if during != nil {
			go during()
		}
		r, err = generate(o)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s on %s: %w", c.name, b.name, err)
	}
	return r, err
}

// warmUp brings Kafka's compiler to rest: at least d of produce and consume.
func warmUp(b *broker, d time.Duration) error {
	for _, o := range []loadOptions{
		{Kind: "produce", Partitions: 64, Size: 1024, Linger: 5 * time.Millisecond, Spell: d / 2},
		{Kind: "produce", Partitions: 1, Size: 1024, Linger: 5 * time.Millisecond, Spell: d / 6},
		{Kind: "consume", Partitions: 64, Size: 1024, Records: 500_000, Linger: 5 * time.Millisecond, Spell: d / 6},
		{Kind: "e2e", Partitions: 1, Size: 1024, Rate: 5000, Spell: d / 6},
	} {
		if _, err := (benchCase{name: "warm-up", load: o}).measure(b, unsynced, nil); err != nil {
			return err
		}
	}
	return nil
}
