package diff

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// width is how many cases run beside each other: most of a case's time is spent waiting.
const width = 12

// loadScripts reads all case files of a directory.
func loadScripts(dir string) ([]*script, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var out []*script
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s, err := parseScript(strings.TrimSuffix(filepath.Base(path), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// fleet is the scripts that share one broker because they ask for the same settings.
type fleet struct {
	settings []string
	scripts  []*script
}

// groupBySettings puts scripts that need the same broker together, in the order of their names.
func groupBySettings(scripts []*script) []fleet {
	var out []fleet
	for _, s := range scripts {
		i := slices.IndexFunc(out, func(f fleet) bool { return slices.Equal(f.settings, s.broker) })
		if i < 0 {
			out, i = append(out, fleet{settings: s.broker}), len(out)
		}
		out[i].scripts = append(out[i].scripts, s)
	}
	return out
}

// selected returns the cases of a fleet that match a pattern, those that need the broker for
// themselves last.
func (f fleet) selected(pattern *regexp.Regexp) []*caseScript {
	var out []*caseScript
	for _, s := range f.scripts {
		for _, c := range s.cases {
			if pattern.MatchString(c.name) {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *caseScript) int { return rank(a) - rank(b) })
	return out
}

func rank(c *caseScript) int {
	if c.alone {
		return 1
	}
	return 0
}

// result is what a broker did in a case, or why the case could not be carried out.
type result struct {
	c          *caseScript
	transcript transcript
	took       time.Duration
	err        error
}

// runAll runs cases on a broker, side by side as far as they allow it, and returns their results in
// the order of the cases.
func runAll(t target, cases []*caseScript, nonce string) ([]result, error) {
	identity, err := identify(t.Address())
	if err != nil {
		return nil, fmt.Errorf("first contact with %s: %w", t.Address(), err)
	}
	r := &runner{target: t, identity: identity, nonce: nonce}
	results := make([]result, len(cases))
	one := func(i int) {
		results[i].c = cases[i]
		start := time.Now()
		defer func() { results[i].took = time.Since(start) }()
		results[i].transcript, results[i].err = r.run(cases[i])
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range width {
		workers.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	for i, c := range cases {
		if !c.alone {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	for i, c := range cases {
		if c.alone {
			one(i)
		}
	}
	return results, nil
}
