package producer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// Retained is how many batches of a producer are known, so that a retry of any of them is found
// (kafka-protocol.md row 13).
const Retained = 5

// Defaults of Options.
const (
	DefaultExpirationMs = 24 * 60 * 60 * 1000
	DefaultMaxProducers = 50_000
)

// Options of a State. The zero value gives the defaults.
type Options struct {
	// ExpirationMs is producer.id.expiration.ms.
	ExpirationMs int64
	// MaxProducers bounds memory, at about 250 bytes each: above it the producers idle for longest
	// are forgotten, except those with an open transaction or a pending batch.
	MaxProducers int
}

func (o Options) withDefaults() Options {
	if o.ExpirationMs <= 0 {
		o.ExpirationMs = DefaultExpirationMs
	}
	if o.MaxProducers <= 0 {
		o.MaxProducers = DefaultMaxProducers
	}
	return o
}

// Marker tells a transaction marker from data.
type Marker int8

// What a batch is.
const (
	Data   Marker = iota // not a marker
	Abort                // control batch, type 0
	Commit               // control batch, type 1
)

// Batch is what the state needs to know of one record batch.
type Batch struct {
	Producer         kafkaproto.ProducerID
	Epoch            kafkaproto.ProducerEpoch
	BaseSequence     int32             // -1 in a coordinator's own writes
	BaseOffset       kafkaproto.Offset // not looked at by Check
	LastOffsetDelta  int32
	MaxTimestamp     int64
	Transactional    bool
	Marker           Marker
	CoordinatorEpoch int32 // of a marker
}

// Describe reads a batch's header, and the key and value of a control batch. A control batch that
// ends no transaction (of another type, or emptied by the cleaner) is given without a producer, so
// that Append passes over it. The error is marked corrupt.
func Describe(b batch.Batch) (Batch, error) {
	d := Batch{
		Producer:        b.ProducerID(),
		Epoch:           b.ProducerEpoch(),
		BaseSequence:    b.BaseSequence(),
		BaseOffset:      b.BaseOffset(),
		LastOffsetDelta: b.LastOffsetDelta(),
		MaxTimestamp:    b.MaxTimestamp(),
		Transactional:   b.IsTransactional(),
	}
	if !b.IsControl() {
		return d, nil
	}
	if b.Count() == 0 {
		d.Producer = kafkaproto.NoProducerID
		return d, nil
	}
	m, err := b.Marker()
	if err != nil {
		return Batch{}, err
	}
	d.CoordinatorEpoch = m.CoordinatorEpoch
	switch m.Kind {
	case batch.Abort:
		d.Marker = Abort
	case batch.Commit:
		d.Marker = Commit
	default:
		d.Producer = kafkaproto.NoProducerID
	}
	return d, nil
}

// LastOffset is the offset of the batch's last record.
func (b Batch) LastOffset() kafkaproto.Offset {
	return b.BaseOffset + kafkaproto.Offset(b.LastOffsetDelta)
}

// LastSequence is the sequence of the batch's last record: it wraps from the largest int32 to 0.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence < 0 {
		return -1
	}
	return addSequence(b.BaseSequence, b.LastOffsetDelta)
}

func addSequence(seq, n int32) int32 { return int32((int64(seq) + int64(n)) & math.MaxInt32) }

// retained is one of a producer's last batches, in the fields of Kafka's BatchMetadata.
type retained struct {
	lastSeq    int32
	delta      int32 // last offset minus base offset, and last sequence minus first
	lastOffset kafkaproto.Offset
	timestamp  int64
}

func (r retained) firstSeq() int32 {
	if r.lastSeq < 0 {
		return -1
	}
	return addSequence(r.lastSeq, -r.delta)
}

// view is what is known of a producer; views are compared with ==.
type view struct {
	epoch     kafkaproto.ProducerEpoch
	n         uint8 // how many of batches count, the oldest first
	coordEp   int32 // -1 before the first marker
	timestamp int64 // max timestamp of its last batch or marker
	txnFirst  kafkaproto.Offset
	batches   [Retained]retained
}

const noEpoch kafkaproto.ProducerEpoch = -1

func emptyView() view { return view{epoch: noEpoch, coordEp: -1, timestamp: -1, txnFirst: -1} }

func (v *view) setEpoch(e kafkaproto.ProducerEpoch) {
	if v.epoch != e {
		v.epoch, v.n = e, 0
		v.batches = [Retained]retained{}
	}
}

func (v *view) push(r retained) {
	if v.n == Retained {
		copy(v.batches[:], v.batches[1:])
		v.n--
	}
	v.batches[v.n] = r
	v.n++
}

// last gives the newest batch.
func (v *view) last() (retained, bool) {
	if v.n == 0 {
		return retained{}, false
	}
	return v.batches[v.n-1], true
}

// entry is one producer.
type entry struct {
	view          // of the tip
	pending int32 // how many batches of it are on the pending list
	active  int64 // broker's clock when it last wrote; for Expire
}

// op is one pending batch with what undoes it.
type op struct {
	b      Batch
	prev   view
	had    bool              // the producer was known before
	closes kafkaproto.Offset // first offset of the transaction that this marker ends, or -1
}

// OpenTxn is a transaction without a committed marker.
type OpenTxn struct {
	Producer    kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
	Marker      kafkaproto.Offset // of the marker that waits for commit, -1 for none
}

// Completed is a transaction whose marker has committed, as .txnindex stores it.
type Completed struct {
	Producer    kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
	LastOffset  kafkaproto.Offset // the marker's
	Aborted     bool
	// LastStable is the first offset of the first other transaction that was open when the marker
	// was written, or the offset behind the marker.
	LastStable kafkaproto.Offset
}

// State is the producer state of one partition: a committed part and the pending batches behind it
// (ruling 17). It is not safe for concurrent use: the log's lock guards it.
type State struct {
	o         Options
	producers map[kafkaproto.ProducerID]*entry
	pending   []op // in offset order, from head on
	head      int
	open      []OpenTxn // by first offset; a producer has two while a marker of it is pending
	committed kafkaproto.Offset
	end       kafkaproto.Offset // behind the last batch appended

	verifications map[kafkaproto.ProducerID]verification
	guards        Guard // the last one given
}

// New makes an empty state.
func New(o Options) *State {
	return &State{
		o:             o.withDefaults(),
		producers:     map[kafkaproto.ProducerID]*entry{},
		verifications: map[kafkaproto.ProducerID]verification{},
	}
}

// SetExpiration takes over a changed producer.id.expiration.ms.
func (s *State) SetExpiration(ms int64) {
	s.o.ExpirationMs = Options{ExpirationMs: ms}.withDefaults().ExpirationMs
}

// Append adds a batch that has its offsets, live or at replay, as pending. It never refuses what
// Check would: what stands in the log is the truth. Batches without a producer id change nothing.
// nowMs is the broker's clock, at replay too: it serves Expire only. Append panics on an offset
// that was appended before.
func (s *State) Append(b Batch, nowMs int64) {
	if b.Producer < 0 {
		return
	}
	if b.BaseOffset < s.end || b.LastOffsetDelta < 0 {
		panic(fmt.Sprintf("producer: batch at %d+%d of producer %d appended at log end %d",
			b.BaseOffset, b.LastOffsetDelta, b.Producer, s.end))
	}
	s.end = b.LastOffset() + 1
	e, had := s.producers[b.Producer]
	if !had {
		s.makeRoom()
		e = &entry{view: emptyView(), active: nowMs}
		s.producers[b.Producer] = e
	}
	o := op{b: b, prev: e.view, had: had, closes: -1}
	if b.Marker != Data {
		o.closes = s.appendMarker(&e.view, b)
	} else {
		s.appendData(&e.view, b)
	}
	if b.Transactional || b.Marker != Data {
		delete(s.verifications, b.Producer)
	}
	e.active = max(e.active, nowMs)
	e.pending++
	s.pending = append(s.pending, o)
}

func (s *State) appendData(v *view, b Batch) {
	v.setEpoch(b.Epoch)
	v.push(retained{lastSeq: b.LastSequence(), delta: b.LastOffsetDelta,
		lastOffset: b.LastOffset(), timestamp: b.MaxTimestamp})
	v.timestamp = b.MaxTimestamp
	if b.Transactional && v.txnFirst < 0 {
		v.txnFirst = b.BaseOffset
		s.open = append(s.open, OpenTxn{Producer: b.Producer, FirstOffset: b.BaseOffset, Marker: -1})
	}
}

// appendMarker ends the producer's transaction for the tip and gives its first offset. For readers
// it stays open until the marker commits.
func (s *State) appendMarker(v *view, b Batch) (closes kafkaproto.Offset) {
	closes = v.txnFirst
	if closes >= 0 {
		s.open[s.openAt(closes)].Marker = b.BaseOffset
	}
	v.setEpoch(b.Epoch)
	v.coordEp, v.timestamp, v.txnFirst = b.CoordinatorEpoch, b.MaxTimestamp, -1
	return closes
}

// openAt finds the open transaction that begins at first.
func (s *State) openAt(first kafkaproto.Offset) int {
	i := sort.Search(len(s.open), func(i int) bool { return s.open[i].FirstOffset >= first })
	if i == len(s.open) || s.open[i].FirstOffset != first {
		panic(fmt.Sprintf("producer: no open transaction begins at %d", first))
	}
	return i
}

// Commit moves the high watermark: batches below hw become committed, and their markers close
// transactions, given in marker order. The aborted ones belong into .txnindex, before readers may
// pass the marker. At a replay over offsets that were committed before they are given again.
func (s *State) Commit(hw kafkaproto.Offset) []Completed {
	if hw <= s.committed {
		return nil
	}
	s.committed = hw
	var done []Completed
	for s.head < len(s.pending) && s.pending[s.head].b.LastOffset() < hw {
		o := &s.pending[s.head]
		s.head++
		s.producers[o.b.Producer].pending--
		if o.closes >= 0 {
			done = append(done, s.close(o))
		}
	}
	if s.head > 64 && s.head > len(s.pending)/2 {
		n := copy(s.pending, s.pending[s.head:])
		s.pending, s.head = s.pending[:n], 0
	}
	return done
}

func (s *State) close(o *op) Completed {
	i := s.openAt(o.closes)
	s.open = slices.Delete(s.open, i, i+1)
	marker := o.b.BaseOffset
	c := Completed{
		Producer:    o.b.Producer,
		FirstOffset: o.closes,
		LastOffset:  marker,
		Aborted:     o.b.Marker == Abort,
		LastStable:  marker + 1,
	}
	if len(s.open) > 0 && s.open[0].FirstOffset < marker {
		c.LastStable = s.open[0].FirstOffset
	}
	return c
}

// Committed is the highest high watermark that Commit saw.
func (s *State) Committed() kafkaproto.Offset { return s.committed }

// Truncate forgets the pending batches that reach off, as if they had never been appended. It
// panics below the committed part: that never goes.
func (s *State) Truncate(off kafkaproto.Offset) {
	if off < s.committed {
		panic(fmt.Sprintf("producer: truncation to %d, committed up to %d", off, s.committed))
	}
	for len(s.pending) > s.head {
		o := &s.pending[len(s.pending)-1]
		if o.b.LastOffset() < off {
			break
		}
		s.undo(o)
		s.pending = s.pending[:len(s.pending)-1]
	}
	s.end = min(s.end, off)
}

func (s *State) undo(o *op) {
	e := s.producers[o.b.Producer]
	if e.txnFirst == o.b.BaseOffset { // this batch opened it, and nothing opened after it is left
		s.open = s.open[:len(s.open)-1]
	}
	if o.closes >= 0 {
		s.open[s.openAt(o.closes)].Marker = -1
	}
	e.view = o.prev
	e.pending--
	if !o.had {
		delete(s.producers, o.b.Producer)
	}
}

// LastStable is the last stable offset (exclusive): the first offset of the first transaction
// without a committed marker, or hw. It may lie below a log start that has moved over an open
// transaction; the log clamps it.
func (s *State) LastStable(hw kafkaproto.Offset) kafkaproto.Offset {
	if len(s.open) > 0 {
		return min(s.open[0].FirstOffset, hw)
	}
	return hw
}

// FirstOpenTxn is the first transaction without a committed marker.
func (s *State) FirstOpenTxn() (OpenTxn, bool) {
	if len(s.open) == 0 {
		return OpenTxn{}, false
	}
	return s.open[0], true
}

// OpenTxns gives all transactions without a committed marker, by first offset.
func (s *State) OpenTxns() []OpenTxn { return slices.Clone(s.open) }

// HasOpenTxn reports whether the producer has a transaction open in this epoch: then a batch needs
// no verification.
func (s *State) HasOpenTxn(p kafkaproto.ProducerID, e kafkaproto.ProducerEpoch) bool {
	v, ok := s.producers[p]
	return ok && v.txnFirst >= 0 && v.epoch == e
}

// Expire forgets producers that have not written for the expiration, unless a transaction is open
// or a batch is pending, and verifications as old; it gives how many producers went (row 16).
func (s *State) Expire(nowMs int64) int {
	before := len(s.producers)
	for id, e := range s.producers {
		if e.idle() && nowMs-e.active >= s.o.ExpirationMs {
			delete(s.producers, id)
		}
	}
	for id, v := range s.verifications {
		if nowMs-v.at >= s.o.ExpirationMs {
			delete(s.verifications, id)
		}
	}
	return before - len(s.producers)
}

func (e *entry) idle() bool { return e.pending == 0 && e.txnFirst < 0 }

// makeRoom keeps the number of producers bounded: an eighth goes at a time, so that a flood of new
// ids costs each of them little.
func (s *State) makeRoom() {
	if len(s.producers) < s.o.MaxProducers {
		return
	}
	type candidate struct {
		id     kafkaproto.ProducerID
		active int64
	}
	var idle []candidate
	for id, e := range s.producers {
		if e.idle() {
			idle = append(idle, candidate{id, e.active})
		}
	}
	slices.SortFunc(idle, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.active, b.active), cmp.Compare(a.id, b.id))
	})
	for _, c := range idle[:min(len(idle), s.o.MaxProducers/8+1)] {
		delete(s.producers, c.id)
	}
}

// Len is the number of producers known.
func (s *State) Len() int { return len(s.producers) }

// Info is one producer as DescribeProducers shows it.
type Info struct {
	Producer         kafkaproto.ProducerID
	Epoch            kafkaproto.ProducerEpoch
	LastSequence     int32 // -1 when none
	LastTimestamp    int64
	CoordinatorEpoch int32             // -1 when none
	TxnFirstOffset   kafkaproto.Offset // -1 when none
}

// Producers lists all producers by id.
func (s *State) Producers() []Info {
	out := make([]Info, 0, len(s.producers))
	for _, id := range s.ids() {
		e := s.producers[id]
		i := Info{Producer: id, Epoch: e.epoch, LastSequence: -1, LastTimestamp: e.timestamp,
			CoordinatorEpoch: e.coordEp, TxnFirstOffset: e.txnFirst}
		if r, ok := e.last(); ok {
			i.LastSequence = r.lastSeq
		}
		out = append(out, i)
	}
	return out
}

func (s *State) ids() []kafkaproto.ProducerID {
	ids := make([]kafkaproto.ProducerID, 0, len(s.producers))
	for id := range s.producers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
