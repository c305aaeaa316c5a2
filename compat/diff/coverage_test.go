package diff

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// served is the APIs that the broker serves, with Kafka 4.4's first and last version of each.
var served = []struct{ key, first, last int16 }{
	{0, 3, 13}, {1, 4, 18}, {2, 1, 11}, {3, 0, 13}, {8, 2, 10}, {9, 1, 10}, {10, 0, 6}, {11, 0, 9}, {12, 0, 4}, {13, 0, 5},
	{14, 0, 5}, {15, 0, 6}, {16, 0, 5}, {18, 0, 5}, {19, 2, 7}, {20, 1, 6}, {21, 0, 2}, {22, 0, 5}, {23, 2, 4}, {32, 1, 4},
	{33, 0, 2}, {37, 0, 3}, {42, 0, 3}, {44, 0, 1}, {47, 0, 0}, {60, 0, 2}, {75, 0, 0},
}

// TestEveryVersionHasACase fails when a version of a served API is never sent.
func TestEveryVersionHasACase(t *testing.T) {
	scripts, err := loadScripts("testdata")
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]bool{}
	cases := 0
	for _, s := range scripts {
		cases += len(s.cases)
		for _, c := range s.cases {
			for _, in := range c.steps {
				if in.verb == "send" || in.verb == "post" {
					sent[in.words[0]+" "+in.words[1]] = true
				}
			}
		}
	}
	for _, api := range served {
		for v := api.first; v <= api.last; v++ {
			if name := fmt.Sprintf("%s v%d", kmsg.NameForKey(api.key), v); !sent[name] {
				t.Errorf("%s is never sent", name)
			}
		}
	}
	const least = 1000
	if cases < least {
		t.Errorf("%d cases, fewer than %d", cases, least)
	}
}

// TestGoldenFilesFitTheCases fails when a case was never recorded or a recorded one is gone.
func TestGoldenFilesFitTheCases(t *testing.T) {
	scripts, err := loadScripts("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		golden, err := loadGolden(s.name)
		if err != nil {
			t.Fatal(err)
		}
		var missing []string
		for _, c := range s.cases {
			if _, ok := golden[c.name]; !ok {
				missing = append(missing, c.name)
			}
			delete(golden, c.name)
		}
		if len(missing) > 0 {
			t.Errorf("%d cases of %s were never recorded, the first is %s", len(missing), s.name, missing[0])
		}
		for name := range golden {
			t.Errorf("%s is recorded and no longer a case", name)
		}
	}
}
