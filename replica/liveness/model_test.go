package liveness

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"pgregory.net/rapid"
)

// claim is a leadership that was real at some time.
type claim struct {
	group       kafkaproto.PartitionID
	term        kafkaproto.LeaderEpoch
	node        kafkaproto.NodeID
	incarnation uint64
}

// life is one incarnation of a broker; told is one of its changes of a group.
type life struct {
	node        kafkaproto.NodeID
	incarnation uint64
}

type told struct {
	seq      uint64
	term     kafkaproto.LeaderEpoch
	resigned bool
	skipped  bool // changed again before it was told
	inSync   []kafkaproto.NodeID
}

// letter is a frame under way; it may be delivered never, or any number of times.
type letter struct {
	from, to kafkaproto.NodeID
	body     []byte
}

// model is a cluster with a bad network, and what is true of it.
type model struct {
	t           *rapid.T
	now         time.Time
	ids         []kafkaproto.NodeID
	m           map[kafkaproto.NodeID]*Machine
	incarnation map[kafkaproto.NodeID]uint64
	post        []letter

	terms   map[kafkaproto.PartitionID]kafkaproto.LeaderEpoch // the last one given
	leading map[kafkaproto.PartitionID]map[kafkaproto.NodeID]kafkaproto.LeaderEpoch
	inSync  map[claim][]kafkaproto.NodeID
	history map[life]map[kafkaproto.PartitionID][]told
	heard   map[life]uint64                                                         // the last change that is in the history
	seen    map[kafkaproto.NodeID]map[kafkaproto.PartitionID]kafkaproto.LeaderEpoch // per machine: highest term shown
}

func newModel(t *rapid.T) *model {
	w := &model{
		t: t, now: start, ids: []kafkaproto.NodeID{1, 2, 3}, m: map[kafkaproto.NodeID]*Machine{},
		incarnation: map[kafkaproto.NodeID]uint64{},
		terms:       map[kafkaproto.PartitionID]kafkaproto.LeaderEpoch{},
		leading:     map[kafkaproto.PartitionID]map[kafkaproto.NodeID]kafkaproto.LeaderEpoch{},
		inSync:      map[claim][]kafkaproto.NodeID{},
		history:     map[life]map[kafkaproto.PartitionID][]told{},
		heard:       map[life]uint64{},
		seen:        map[kafkaproto.NodeID]map[kafkaproto.PartitionID]kafkaproto.LeaderEpoch{},
	}
	for i := range modelGroups {
		w.leading[modelGroup(i)] = map[kafkaproto.NodeID]kafkaproto.LeaderEpoch{}
	}
	for _, id := range w.ids {
		w.boot(id)
	}
	return w
}

// modelGroups are few, so that what happens to one happens often.
const modelGroups = 5

func modelGroup(i int) kafkaproto.PartitionID {
	return kafkaproto.PartitionID{Topic: kafkaproto.TopicID{byte(i % 3)}, Partition: int32(i)}
}

// boot starts a broker anew: it leads nothing.
func (w *model) boot(id kafkaproto.NodeID) {
	w.incarnation[id]++
	c := config(id, w.incarnation[id])
	c.Random = rand.New(rand.NewPCG(uint64(id), w.incarnation[id]))
	w.m[id] = New(c, w.now)
	w.m[id].cfg.MaxFrame = 90 // a digest takes several frames
	w.m[id].SetPeers(w.now, w.ids)
	w.seen[id] = map[kafkaproto.PartitionID]kafkaproto.LeaderEpoch{}
	w.history[w.life(id)] = map[kafkaproto.PartitionID][]told{}
	for _, terms := range w.leading {
		delete(terms, id)
	}
	if w.m[id].Groups() != 0 {
		w.t.Fatal("a new incarnation knows groups")
	}
}

func (w *model) life(n kafkaproto.NodeID) life { return life{n, w.incarnation[n]} }

// harvest writes down what a broker has changed, be it because it was deposed.
func (w *model) harvest(n kafkaproto.NodeID) {
	l := w.life(n)
	for _, c := range w.m[n].pending {
		if c.seq <= w.heard[l] {
			continue
		}
		w.heard[l] = c.seq
		h := told{seq: c.seq, term: c.term, resigned: c.resigned}
		if !c.resigned {
			h.inSync = c.e.inSync
		}
		past := w.history[l][c.e.group]
		if i := len(past) - 1; i >= 0 && past[i].seq > w.m[n].flushed && !past[i].resigned {
			past[i].skipped = true
		}
		w.history[l][c.e.group] = append(past, h)
	}
}

func (w *model) node(name string) kafkaproto.NodeID { return rapid.SampledFrom(w.ids).Draw(w.t, name) }

func (w *model) group() kafkaproto.PartitionID {
	return modelGroup(rapid.IntRange(0, modelGroups-1).Draw(w.t, "group"))
}

func (w *model) set() []kafkaproto.NodeID {
	return rapid.Permutation(w.ids).Draw(w.t, "in sync")[:rapid.IntRange(1, 3).Draw(w.t, "n")]
}

// elect makes a node leader in the next term, with others perhaps still believing in theirs.
func (w *model) elect() {
	g, n := w.group(), w.node("leader")
	w.terms[g]++
	w.lead(g, w.terms[g], n)
}

func (w *model) lead(g kafkaproto.PartitionID, term kafkaproto.LeaderEpoch, n kafkaproto.NodeID) {
	set := w.set()
	if w.m[n].Lead(w.now, g, term, set) {
		w.leading[g][n] = term
		w.inSync[claim{g, term, n, w.incarnation[n]}] = set
	}
	w.harvest(n)
}

func (w *model) change() {
	g, n := w.group(), w.node("leader")
	if term, ok := w.leading[g][n]; ok {
		w.lead(g, term, n)
	}
}

func (w *model) resign(g kafkaproto.PartitionID, n kafkaproto.NodeID) {
	if term, ok := w.leading[g][n]; ok {
		w.m[n].Resign(w.now, g, term)
		delete(w.leading[g], n)
	}
	w.harvest(n)
}

// pass lets time go by on one broker only, late or not.
func (w *model) pass(n kafkaproto.NodeID) {
	w.m[n].DiskCycle(w.now)
	w.m[n].Advance(w.now)
	w.collect(n)
}

func (w *model) collect(n kafkaproto.NodeID) {
	for _, f := range w.m[n].Take().Send {
		w.post = append(w.post, letter{n, f.To, f.Body})
	}
}

func (w *model) connect(x, y kafkaproto.NodeID) { w.m[x].Connected(w.now, y, w.incarnation[y]) }

func (w *model) cut(x, y kafkaproto.NodeID) {
	w.m[x].Disconnected(w.now, y)
	if rapid.Bool().Draw(w.t, "refused") {
		w.m[x].Refused(w.now, y)
	}
}

// deliver takes any letter, be it of a life long past, and keeps it or not.
func (w *model) deliver() {
	if len(w.post) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.post)-1).Draw(w.t, "letter")
	l := w.post[i]
	if rapid.Bool().Draw(w.t, "once") {
		w.post = slices.Delete(w.post, i, i+1)
	}
	w.hand(l)
}

func (w *model) hand(l letter) {
	if err := w.m[l.to].Receive(w.now, l.from, l.body); err != nil {
		w.t.Fatal(err)
	}
	w.harvest(l.to)
}

// heal connects all anew, in order and without loss, after raft has deposed who is not in the last term.
func (w *model) heal() {
	w.post = nil
	for i := range modelGroups {
		g := modelGroup(i)
		for _, n := range w.ids {
			if term, ok := w.leading[g][n]; ok && term < w.terms[g] {
				w.resign(g, n)
			}
		}
	}
	for _, x := range w.ids {
		for _, y := range w.ids {
			if x != y {
				w.connect(x, y)
			}
		}
	}
	for range 3 {
		w.now = w.now.Add(100 * ms)
		for _, n := range w.ids {
			w.pass(n)
		}
		for len(w.post) > 0 {
			l := w.post[0]
			w.post = w.post[1:]
			w.hand(l)
			w.collect(l.to)
		}
	}
}

// check holds after each step: terms rise, each machine knows what its peers have told, and lists and
// table agree.
func (w *model) check() {
	for _, n := range w.ids {
		m := w.m[n]
		for g := range m.table {
			l, _ := m.Leader(g)
			if l.Term < w.seen[n][g] {
				w.t.Fatalf("broker %d, %v: term %d after %d", n, g, l.Term, w.seen[n][g])
			}
			w.seen[n][g] = l.Term
			c := claim{g, l.Term, l.Node, m.peers[l.Node].incarnation}
			if _, real := w.inSync[c]; l.Live && !real {
				w.t.Fatalf("broker %d believes in %+v, which never was", n, c)
			}
		}
		for _, p := range m.members {
			if p.incarnation == 0 {
				continue
			}
			for g, h := range w.history[life{p.node, p.incarnation}] {
				w.checkKnown(n, p, g, h)
			}
		}
		if err := listsAgree(m); err != nil {
			w.t.Fatal(err)
		}
		if c := m.Counters(); c.Conflicts > 0 {
			w.t.Fatalf("broker %d: %+v", n, c)
		}
	}
}

// checkKnown compares what n knows of a group from p with p's history: it is p's state at the number of
// the entry, and nothing is missing up to the number that n says it has.
func (w *model) checkKnown(n kafkaproto.NodeID, p *peer, g kafkaproto.PartitionID, h []told) {
	m := w.m[n]
	at := func(seq uint64, skipped bool) (last told) {
		for _, c := range h {
			if c.seq <= seq && (skipped || !c.skipped) {
				last = c
			}
		}
		return last
	}
	e := m.table[g]
	have := at(p.have, false)
	if e == nil {
		if p.whole && have.seq > 0 && !have.resigned {
			w.t.Fatalf("broker %d has changes of %d up to %d and lacks %v", n, p.node, p.have, g)
		}
		return
	}
	if e.leader != p {
		if have.term > e.term && !have.resigned { // a digest does not list resigned terms
			w.t.Fatalf("broker %d has changes of %d up to %d; %v: %+v misses %+v", n, p.node, p.have, g, m.view(e), have)
		}
		return
	}
	if e.incarnation != p.incarnation {
		if p.whole && e.at >= 0 {
			w.t.Fatalf("broker %d, %v: led by an old life of %d after a digest of the new one", n, g, p.node)
		}
		return
	}
	is := at(e.seq, true)
	resigned := is.resigned || is.seq == 0
	if resigned != (e.at < 0) || !resigned && (is.term != e.term || is.seq != e.seq || !slices.Equal(is.inSync, e.inSync)) {
		w.t.Fatalf("broker %d, %v: %+v as of change %d of %d, which is %+v", n, g, m.view(e), e.seq, p.node, is)
	}
	if e.at >= 0 && have.seq > e.seq {
		w.t.Fatalf("broker %d has changes of %d up to %d; %v stands at %d, not %+v", n, p.node, p.have, g, e.seq, have)
	}
}

// listsAgree compares the leaders' lists and the topics' chains with the table.
func listsAgree(m *Machine) error {
	listed, chained := 0, 0
	for _, p := range m.peers {
		for i, e := range p.led {
			if e.at != i || e.leader != p || m.table[e.group] != e {
				return fmt.Errorf("%v is listed at %d of %d and says %d of %d", e.group, i, p.node, e.at, e.leader.node)
			}
		}
		listed += len(p.led)
	}
	for _, e := range m.table {
		if e.at >= 0 {
			listed--
		}
	}
	for topic := range m.topics {
		for e := m.topics[topic]; e != nil; e = e.sibling {
			chained++
		}
	}
	if listed != 0 || chained != len(m.table) {
		return fmt.Errorf("%d too many in lists, %d in chains of %d", listed, chained, len(m.table))
	}
	return nil
}

// converged compares all tables with the truth.
func (w *model) converged() {
	for i := range modelGroups {
		g := modelGroup(i)
		for _, n := range w.ids {
			l, known := w.m[n].Leader(g)
			var leader kafkaproto.NodeID
			for id, term := range w.leading[g] {
				if term == w.terms[g] {
					leader = id
				}
			}
			if leader == 0 {
				if l.Live {
					w.t.Fatalf("broker %d, %v: %+v, though nobody leads", n, g, l)
				}
				continue
			}
			want := w.inSync[claim{g, w.terms[g], leader, w.incarnation[leader]}]
			if !known || !l.Live || l.Node != leader || l.Term != w.terms[g] || !slices.Equal(l.InSync, want) {
				w.t.Fatalf("broker %d, %v: %+v, want leader %d in term %d with %v", n, g, l, leader, w.terms[g], want)
			}
		}
	}
	for _, n := range w.ids {
		for _, p := range w.m[n].members {
			if !p.whole || p.wants || p.have != w.m[p.node].seq || !p.up {
				w.t.Fatalf("broker %d of %d: whole %t, wants %t, has %d of %d", n, p.node, p.whole, p.wants, p.have, w.m[p.node].seq)
			}
		}
		if !w.m[n].Admitted() || !w.m[n].Quorum() {
			w.t.Fatalf("broker %d: admitted %t, quorum %t", n, w.m[n].Admitted(), w.m[n].Quorum())
		}
	}
}

// TestTablesConverge drives three brokers through elections, restarts and a network that drops, repeats
// and reorders, then connects them once more.
func TestTablesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newModel(t)
		steps := map[string]func(){
			"elect":   func() { w.elect() },
			"change":  func() { w.change() },
			"resign":  func() { w.resign(w.group(), w.node("leader")) },
			"restart": func() { w.boot(w.node("broker")) },
			"pass":    func() { w.pass(w.node("broker")) },
			"tick":    func() { w.tick(100 * ms) },
			"time":    func() { w.tick(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * ms) },
			"connect": func() { w.pair(w.connect) },
			"meet":    func() { w.pair(func(x, y kafkaproto.NodeID) { w.connect(x, y); w.connect(y, x) }) },
			"cut":     func() { w.pair(w.cut) },
			"deliver": func() { w.deliver() },
			"order":   func() { w.inOrder() },
		}
		often := []string{"elect", "change", "change", "resign", "tick", "deliver", "deliver", "deliver", "deliver", "order", "pass", "meet",
			"connect", "elect", "resign", "tick", "deliver", "deliver", "order", "cut", "restart", "time"}
		for range rapid.IntRange(0, 250).Draw(t, "steps") {
			steps[rapid.SampledFrom(often).Draw(t, "step")]()
			w.check()
		}
		w.heal()
		w.check()
		w.converged()
	})
}

// tick lets time pass for all.
func (w *model) tick(d time.Duration) {
	w.now = w.now.Add(d)
	for _, n := range w.ids {
		w.pass(n)
	}
}

func (w *model) pair(do func(x, y kafkaproto.NodeID)) {
	x, y := w.node("from"), w.node("to")
	if x != y {
		do(x, y)
	}
}

// inOrder delivers all letters of one pair as they were sent.
func (w *model) inOrder() {
	w.pair(func(x, y kafkaproto.NodeID) {
		for _, n := range w.ids {
			w.collect(n)
		}
		for _, l := range w.post {
			if l.from == x && l.to == y {
				w.hand(l)
			}
		}
	})
}

// TestSameInputsSameOutputs runs one script twice and compares every byte that leaves.
func TestSameInputsSameOutputs(t *testing.T) {
	script := func() string {
		var log []byte
		b := newBrokers(t, 3)
		for i := range 500 {
			b.m[kafkaproto.NodeID(i%3+1)].Lead(b.now, groupID(i), 1, []kafkaproto.NodeID{1, 2, 3})
		}
		b.run(time.Second)
		b.off[3] = true
		b.run(3 * time.Second)
		b.off[3] = false
		b.run(time.Second)
		for _, id := range b.ids {
			log = fmt.Appendf(log, "%+v\n", b.took(id))
			for _, g := range slices.Sorted(maps.Values(groupNames(b.m[id]))) {
				log = fmt.Appendln(log, g)
			}
			b.m[id].Connected(b.now, id%3+1, 1)
			for _, f := range b.m[id].Take().Send {
				log = fmt.Appendf(log, "%d %x\n", f.To, f.Body)
			}
		}
		return string(log)
	}
	if a, b := script(), script(); a != b || len(a) < 10_000 {
		t.Errorf("two runs differ, or say too little: %d and %d bytes", len(a), len(b))
	}
}

func groupNames(m *Machine) map[kafkaproto.PartitionID]string {
	out := map[kafkaproto.PartitionID]string{}
	for g := range m.table {
		l, _ := m.Leader(g)
		out[g] = fmt.Sprintf("%v %+v", g, l)
	}
	return out
}
