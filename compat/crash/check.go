package crash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Violation is one broken rule.
type Violation struct {
	Rule string
	Place
	What string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Rule, v.Place, v.What) }

// checker holds the indexes that the rules share.
type checker struct {
	h     *History
	sent  map[Place]map[ID]*Write
	found []Violation
}

// Check compares a history with what is promised and returns every violation, in the order of the
// rules; none means that the run was clean.
func Check(h *History) []Violation {
	c := &checker{h: h, sent: map[Place]map[ID]*Write{}}
	for i := range h.Writes {
		w := &h.Writes[i]
		if c.sent[w.Place] == nil {
			c.sent[w.Place] = map[ID]*Write{}
		}
		c.sent[w.Place][w.ID] = w
	}
	places := slices.SortedFunc(maps.Keys(c.places()), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, p := range places {
		log := h.Final[p]
		c.dense(p, log)
		c.once(p, log)
		c.kept(p, log)
		c.realTime(p)
		c.committed(p)
		c.latest(p, log)
	}
	c.sessions()
	return c.found
}

func (c *checker) fail(rule string, p Place, format string, args ...any) {
	c.found = append(c.found, Violation{rule, p, fmt.Sprintf(format, args...)})
}

// places are all that any client touched.
func (c *checker) places() map[Place]bool {
	all := map[Place]bool{}
	for p := range c.h.Final {
		all[p] = true
	}
	for p := range c.sent {
		all[p] = true
	}
	return all
}

// dense is K4.
func (c *checker) dense(p Place, log Log) {
	for i, e := range log.Entries {
		if e.Offset != int64(i) {
			c.fail("sparse", p, "record %d has offset %d", i, e.Offset)
			return
		}
	}
	if int64(len(log.Entries)) != log.End {
		c.fail("sparse", p, "%d records, the end is %d", len(log.Entries), log.End)
	}
}

// once is K2 and K3: each record of the log against what was sent.
func (c *checker) once(p Place, log Log) {
	at := map[ID]int64{}
	last := map[int32]int64{} // by writer: the highest Seq so far
	for _, e := range log.Entries {
		w := c.sent[p][e.ID]
		switch first, again := at[e.ID]; {
		case e.Alien != "" || w == nil:
			c.fail("invented", p, "offset %d holds %v %s, which was not sent", e.Offset, e.ID, e.Alien)
			continue
		case again:
			c.fail("duplicated", p, "%v lies at %d and at %d", e.ID, first, e.Offset)
			continue
		case w.End != 0 && w.Err == nil && w.Offset != e.Offset:
			c.fail("moved", p, "%v lies at %d and was acknowledged at %d", e.ID, e.Offset, w.Offset)
		}
		at[e.ID] = e.Offset
		before, seen := last[e.Writer]
		if !seen {
			before = -1
		}
		switch {
		case e.Seq < before:
			c.fail("reordered", p, "%v at %d lies behind number %d of its writer", e.ID, e.Offset, before)
			continue
		case e.Seq > before+1:
			c.hole(p, e, before)
		}
		last[e.Writer] = e.Seq
	}
}

// hole reports records between two of one writer that are missing though their client did not give
// them up.
func (c *checker) hole(p Place, e Entry, before int64) {
	for seq := before + 1; seq < e.Seq; seq++ {
		w := c.sent[p][ID{e.Writer, seq}]
		if w == nil || w.Err == nil {
			c.fail("hole", p, "%v at %d follows number %d: %d is not between them", e.ID, e.Offset, before, seq)
			return
		}
	}
}

// kept is K1: nothing acknowledged is lost.
func (c *checker) kept(p Place, log Log) {
	at := make(map[int64]Entry, len(log.Entries))
	for _, e := range log.Entries {
		at[e.Offset] = e
	}
	for i := range c.h.Writes {
		w := &c.h.Writes[i]
		if w.Place != p || !w.acked() {
			continue
		}
		if e, ok := at[w.Offset]; !ok || e.ID != w.ID || e.Alien != "" {
			c.fail("lost", p, "%v was acknowledged at %d; there is %v", w.ID, w.Offset, e)
		}
	}
}

// realTime is K5. Acknowledgements in the order of their moments give the highest offset that was
// known before each sending began.
func (c *checker) realTime(p Place) {
	var starts, ends []*Write
	for i := range c.h.Writes {
		if w := &c.h.Writes[i]; w.Place == p && w.acked() {
			starts, ends = append(starts, w), append(ends, w)
		}
	}
	slices.SortFunc(starts, func(a, b *Write) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(ends, func(a, b *Write) int { return cmp.Compare(a.End, b.End) })
	highest, next := int64(-1), 0
	for _, w := range starts {
		for ; next < len(ends) && ends[next].End < w.Start; next++ {
			highest = max(highest, ends[next].Offset)
		}
		if w.Offset <= highest {
			c.fail("late", p, "%v was sent after %d was acknowledged and has offset %d", w.ID, highest, w.Offset)
		}
	}
}

// committed is the first half of K7.
func (c *checker) committed(p Place) {
	var commits, answers []Answer
	tried := map[int64]bool{-1: true}
	for _, x := range c.h.Commits {
		if x.Place != p {
			continue
		}
		tried[x.Offset] = true
		if x.OK {
			commits = append(commits, Answer{p, x.Offset, x.Start, x.End})
		}
	}
	for _, a := range c.h.Committed {
		if a.Place == p {
			answers = append(answers, a)
			if !tried[a.Offset] {
				c.fail("commit invented", p, "%d is committed, which no member sent", a.Offset)
			}
		}
	}
	c.neverBack("commit lost", append(commits, answers...), answers, "the committed offset")
}

// latest is K8, and no answer lies above the end.
func (c *checker) latest(p Place, log Log) {
	var known, answers []Answer
	for _, w := range c.sent[p] {
		if w.acked() {
			known = append(known, Answer{p, w.Offset + 1, w.Start, w.End})
		}
	}
	for _, a := range c.h.Latest {
		if a.Place != p {
			continue
		}
		answers = append(answers, a)
		if a.Offset > log.End {
			c.fail("end back", p, "the latest offset was %d, the log ends at %d", a.Offset, log.End)
		}
	}
	c.neverBack("end back", append(known, answers...), answers, "the latest offset")
}

// neverBack wants every answer to be at least the highest offset known before it was asked for.
func (c *checker) neverBack(rule string, known, answers []Answer, what string) {
	slices.SortFunc(known, func(a, b Answer) int { return cmp.Compare(a.End, b.End) })
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Start, b.Start) })
	highest, next := int64(-1), 0
	for _, a := range answers {
		for ; next < len(known) && known[next].End < a.Start; next++ {
			highest = max(highest, known[next].Offset)
		}
		if a.Offset < highest {
			c.fail(rule, a.Place, "%s is %d after %d was known", what, a.Offset, highest)
		}
	}
}

// sessions is K6 and the second half of K7.
func (c *checker) sessions() {
	stored := map[Place][]Commit{}
	for _, x := range c.h.Commits {
		if x.OK {
			stored[x.Place] = append(stored[x.Place], x)
		}
	}
	for _, s := range c.h.Sessions {
		if len(s.Entries) == 0 {
			continue
		}
		first := s.Entries[0].Offset
		for _, x := range stored[s.Place] {
			if x.End < s.Start && x.Offset > first {
				c.fail("resumed early", s.Place, "a member began at %d when %d was committed", first, x.Offset)
				break
			}
		}
		log := c.h.Final[s.Place].Entries
		for i, e := range s.Entries {
			if e.Offset != first+int64(i) {
				c.fail("skipped", s.Place, "a reader got %d where %d was next", e.Offset, first+int64(i))
				break
			}
			if e.Offset >= int64(len(log)) || log[e.Offset] != e {
				c.fail("unseen", s.Place, "a reader saw %v at %d, which is not there", e.ID, e.Offset)
				break
			}
		}
	}
}
