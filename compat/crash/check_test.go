package crash

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// good makes a history that breaks no rule: writers whose requests end out of order and sometimes
// not at all, readers, commits and audits, all as a correct broker would have answered.
func good(seed uint64) *History {
	rng := rand.New(rand.NewPCG(seed, 3))
	h := &History{Final: map[Place]Log{}}
	now := int64(0)
	tick := func() int64 { now++; return now }
	for partition := range int32(3) {
		p := Place{"t", partition}
		next := map[int32]int64{}
		var log Log
		var open []int // writes in the log that are not answered
		committed := int64(-1)
		for range 60 {
			w := int32(rng.IntN(3))
			h.Writes = append(h.Writes, Write{Place: p, ID: ID{w, next[w]}, Start: tick(), Offset: -1})
			open = append(open, len(h.Writes)-1)
			log.Entries = append(log.Entries, Entry{Offset: log.End, ID: ID{w, next[w]}})
			next[w]++
			log.End++
			for len(open) > rng.IntN(5) {
				h.Writes[open[0]].Offset = log.End - int64(len(open))
				h.Writes[open[0]].End = tick()
				open = open[1:]
			}
			start := tick()
			h.Latest = append(h.Latest, Answer{p, log.End, start, tick()})
			if rng.IntN(4) == 0 && log.End-1 > committed {
				committed = log.End - 1
				start = tick()
				h.Commits = append(h.Commits, Commit{p, committed, start, tick(), true})
			}
			start = tick()
			h.Committed = append(h.Committed, Answer{p, committed, start, tick()})
		}
		h.Sessions = append(h.Sessions, &Session{p, 0, slices.Clone(log.Entries[:30])})
		first := max(committed, 0)
		h.Sessions = append(h.Sessions, &Session{p, tick(), slices.Clone(log.Entries[first:])})
		// One that was given up, and one whose answer never came: neither is in the log.
		h.Writes = append(h.Writes,
			Write{Place: p, ID: ID{7, 0}, Start: tick(), End: tick(), Err: errors.New("too large"), Offset: -1},
			Write{Place: p, ID: ID{8, 0}, Start: tick(), Offset: -1})
		h.Final[p] = log
	}
	return h
}

func TestCheckAcceptsGoodHistories(t *testing.T) {
	for seed := range uint64(200) {
		if found := Check(good(seed)); len(found) > 0 {
			t.Fatalf("seed %d: %v", seed, found[0])
		}
	}
}

// mutation damages a good history at a place of rng's choice; rule is how the damage must be found.
type mutation struct {
	name, rule string
	damage     func(h *History, p Place, rng *rand.Rand)
}

// edit changes a place's final log.
func edit(h *History, p Place, f func(l *Log)) {
	l := h.Final[p]
	l.Entries = slices.Clone(l.Entries)
	f(&l)
	h.Final[p] = l
}

// renumber closes the gaps that a change of the entries left, so that only the rule meant is broken.
func renumber(l *Log) {
	for i := range l.Entries {
		l.Entries[i].Offset = int64(i)
	}
	l.End = int64(len(l.Entries))
}

var mutations = []mutation{
	{"the tail is gone", "lost", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries = l.Entries[:20+rng.IntN(30)]; l.End = int64(len(l.Entries)) })
	}},
	{"the tail is gone and the end went back", "end back", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries = l.Entries[:20+rng.IntN(30)]; l.End = int64(len(l.Entries)) })
	}},
	{"a record in the middle is gone", "hole", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { i := rng.IntN(30); l.Entries = slices.Delete(l.Entries, i, i+1); renumber(l) })
	}},
	{"a record left its offset empty", "sparse", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { i := rng.IntN(30); l.Entries = slices.Delete(l.Entries, i, i+1) })
	}},
	{"an offset is used twice", "sparse", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries[1+rng.IntN(30)].Offset-- })
	}},
	{"a retry was stored again", "duplicated", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries = append(l.Entries, l.Entries[rng.IntN(60)]); renumber(l) })
	}},
	{"two records of a writer changed places", "reordered", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) {
			i := rng.IntN(30)
			j := i + 1
			for l.Entries[j].Writer != l.Entries[i].Writer {
				j++
			}
			l.Entries[i].Seq, l.Entries[j].Seq = l.Entries[j].Seq, l.Entries[i].Seq
		})
	}},
	{"a record lies at another offset", "moved", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) {
			i := 1 + rng.IntN(30)
			l.Entries = slices.Insert(l.Entries, i, Entry{ID: ID{9, 0}})
			h.Writes = append(h.Writes, Write{Place: p, ID: ID{9, 0}, Start: 1})
			renumber(l)
		})
	}},
	{"a record that nobody sent", "invented", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries = append(l.Entries, Entry{ID: ID{9, 5}}); renumber(l) })
	}},
	{"bytes that are no record of ours", "invented", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries[rng.IntN(60)].Alien = "torn" })
	}},
	{"another record at an acknowledged offset", "lost", func(h *History, p Place, rng *rand.Rand) {
		edit(h, p, func(l *Log) { l.Entries[rng.IntN(50)].Seq += 1000 })
	}},
	{"a later record got the lower offset", "late", func(h *History, p Place, rng *rand.Rand) {
		n := h.Final[p].End
		h.Writes = append(h.Writes, Write{Place: p, ID: ID{9, 0}, Start: 1 << 40, End: 1<<40 + 1, Offset: rng.Int64N(n - 10)})
	}},
	{"a reader saw what is not there", "unseen", func(h *History, p Place, rng *rand.Rand) {
		s := session(h, p)
		s.Entries[rng.IntN(len(s.Entries))].Seq += 1000
	}},
	{"a reader saw more than there is", "unseen", func(h *History, p Place, rng *rand.Rand) {
		s := session(h, p)
		s.Entries = slices.Clone(h.Final[p].Entries)
		s.Entries = append(s.Entries, Entry{Offset: h.Final[p].End, ID: ID{8, 0}})
	}},
	{"a reader skipped a record", "skipped", func(h *History, p Place, rng *rand.Rand) {
		s := session(h, p)
		i := 1 + rng.IntN(20)
		s.Entries = slices.Delete(s.Entries, i, i+1)
	}},
	{"a reader got a record twice", "skipped", func(h *History, p Place, rng *rand.Rand) {
		s := session(h, p)
		i := rng.IntN(20)
		s.Entries = slices.Insert(s.Entries, i, s.Entries[i])
	}},
	{"a member began before the committed offset", "resumed early", func(h *History, p Place, _ *rand.Rand) {
		session(h, p).Start = 1 << 40
	}},
	{"the committed offset went back", "commit lost", func(h *History, p Place, rng *rand.Rand) {
		first := int64(-1)
		for _, c := range h.Commits {
			if c.Place == p {
				first = c.Offset
				break
			}
		}
		h.Committed = append(h.Committed, Answer{p, first, 1 << 40, 1<<40 + 1})
	}},
	{"all commits are gone", "commit lost", func(h *History, p Place, rng *rand.Rand) {
		h.Committed = append(h.Committed, Answer{p, -1, 1 << 40, 1<<40 + 1})
	}},
	{"an offset is committed that nobody sent", "commit invented", func(h *History, p Place, rng *rand.Rand) {
		h.Committed = append(h.Committed, Answer{p, 1000, 1 << 40, 1<<40 + 1})
	}},
	{"the latest offset went back for a while", "end back", func(h *History, p Place, rng *rand.Rand) {
		for i := range h.Latest {
			if a := &h.Latest[i]; a.Place == p && a.Offset > 20 {
				a.Offset -= 6
				return
			}
		}
	}},
}

// session is the first member's at the place.
func session(h *History, p Place) *Session {
	for _, s := range h.Sessions {
		if s.Place == p {
			return s
		}
	}
	return nil
}

// TestCheckFindsEveryMutation damages many good histories in each way; all must be found, under the
// rule that names the damage and at the place that was damaged.
func TestCheckFindsEveryMutation(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			for seed := range uint64(50) {
				rng := rand.New(rand.NewPCG(seed, 5))
				h, p := good(seed), Place{"t", int32(rng.IntN(3))}
				m.damage(h, p, rng)
				found := Check(h)
				if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == m.rule && v.Place == p }) {
					t.Fatalf("seed %d: no %q at %s in %v", seed, m.rule, p, found)
				}
				for _, v := range found {
					if v.Place != p {
						t.Fatalf("seed %d: %s was not damaged: %v", seed, v.Place, v)
					}
				}
			}
		})
	}
}

func TestRecordsNameThemselves(t *testing.T) {
	p := Place{"t", 3}
	value := encode(p, ID{4, 17}, 60)
	if e := decode(p, 9, value); e != (Entry{Offset: 9, ID: ID{4, 17}}) {
		t.Fatalf("%+v", e)
	}
	for name, damaged := range map[string][]byte{
		"cut":     value[:4],
		"flipped": append(slices.Clone(value[:50]), append([]byte{'!'}, value[51:]...)...),
		"empty":   nil,
	} {
		if e := decode(p, 9, damaged); e.Alien == "" {
			t.Errorf("%s: taken for %+v", name, e)
		}
	}
	if e := decode(Place{"t", 4}, 9, value); e.Alien == "" {
		t.Error("a record of another partition is taken for one of this")
	}
}
