package vfs

import (
	"fmt"
	"testing"
)

// TestTorn: every byte of a tail is a place where the power may go, in a file that grows, one that is
// written in place and one that was cut; p lives on.
func TestTorn(t *testing.T) {
	p := PowerLoss(1)
	for name, content := range map[string]string{"grows": "ab", "in place": "ab000", "cut": "abcde", "same": "x"} {
		if err := create(t, p, name, content).Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int64{"grows": 2, "in place": 2} {
		f, err := p.OpenFile(name, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("cd"), at); err != nil {
			t.Fatal(err)
		}
	}
	f, err := p.OpenFile("cut", 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(3); err != nil {
		t.Fatal(err)
	}
	create(t, p, "new", "n")
	want := "[{/cut 3 3} {/grows 2 4} {/in place 2 4} {/new 0 1}]"
	if got := fmt.Sprint(p.Tails()); got != want {
		t.Fatalf("tails %s, want %s", got, want)
	}
	for _, c := range []struct {
		name, want string
		at         int64
	}{
		{"grows", "ab", 2}, {"grows", "abc", 3}, {"grows", "abcd", 4},
		{"in place", "ab000", 2}, {"in place", "abc00", 3}, {"in place", "abcd0", 4}, {"cut", "abcde", 3},
	} {
		for _, rest := range []bool{true, false} {
			q, ok := p.Torn(c.name, c.at, rest)
			if !ok {
				t.Fatalf("%s is not there", c.name)
			}
			wantContent(t, q, c.name, c.want)
			wantContent(t, q, "same", "x")
			if _, err := q.Crash(PowerCrash).Stat("new"); (err == nil) != rest {
				t.Errorf("torn with the rest kept: %v; the new file: %v", rest, err)
			}
		}
	}
	if _, ok := p.Torn("new", 0, false); ok {
		t.Error("a file that is gone was torn")
	}
	wantContent(t, p, "cut", "abc")
}
