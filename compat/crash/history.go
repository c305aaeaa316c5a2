package crash

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Place is a partition of a topic.
type Place struct {
	Topic     string
	Partition int32
}

func (p Place) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// ID names a record within its place: who sent it and as which one, counted from 0 per writer and
// place.
type ID struct {
	Writer int32
	Seq    int64
}

// Write is one record that a writer handed to its client. Start and End are moments of the run's
// clock; End is 0 while the client has not answered. Err is set when it gave the record up.
type Write struct {
	Place
	ID
	Start, End int64
	Offset     int64
	Err        error
}

// acked says whether the client was told that the record is stored.
func (w Write) acked() bool { return w.End != 0 && w.Err == nil }

// Entry is one record as it was read. Alien is set, to what was found, when it is not one of ours.
type Entry struct {
	Offset int64
	ID
	Alien string
}

// Session is what a member read of a place between getting it and giving it away.
type Session struct {
	Place
	Start   int64
	Entries []Entry
}

// Commit is one offset that a member committed. It counts as stored only when OK.
type Commit struct {
	Place
	Offset     int64
	Start, End int64
	OK         bool
}

// Answer is an offset that an auditor was told: the group's committed one, or the latest.
type Answer struct {
	Place
	Offset     int64
	Start, End int64
}

// Log is what a place holds at the end. End is what ListOffsets says.
type Log struct {
	Entries []Entry
	End     int64
}

// History is all that the clients of one run saw.
type History struct {
	Writes    []Write
	Sessions  []*Session
	Commits   []Commit
	Committed []Answer // by OffsetFetch
	Latest    []Answer // by ListOffsets
	Final     map[Place]Log
}

// recorder collects a history from many goroutines. Its clock counts events: what ended before
// something else began has the lower number.
type recorder struct {
	now   atomic.Int64
	acked atomic.Int64 // writes

	mu      sync.Mutex
	pending int
	history History
}

func newRecorder() *recorder {
	return &recorder{history: History{Final: map[Place]Log{}}}
}

func (r *recorder) tick() int64 { return r.now.Add(1) }

// sending notes a record and returns its number for sent.
func (r *recorder) sending(p Place, id ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending++
	r.history.Writes = append(r.history.Writes, Write{Place: p, ID: id, Start: r.tick(), Offset: -1})
	return len(r.history.Writes) - 1
}

func (r *recorder) sent(n int, offset int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	w := &r.history.Writes[n]
	w.End, w.Offset, w.Err = r.tick(), offset, err
	if err == nil {
		r.acked.Add(1)
	}
}

// inFlight is how many records wait for an answer.
func (r *recorder) inFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending
}

func (r *recorder) session(p Place) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Session{Place: p, Start: r.tick()}
	r.history.Sessions = append(r.history.Sessions, s)
	return s
}

func (r *recorder) committed(c ...Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Commits = append(r.history.Commits, c...)
}

func (r *recorder) audit(to *[]Answer, a ...Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, a...)
}

// encode is the value of a record: what it is, then padding up to size bytes.
func encode(p Place, id ID, size int) []byte {
	v := fmt.Appendf(nil, "%s/%d/%d/%d/", p.Topic, p.Partition, id.Writer, id.Seq)
	for len(v) < size {
		v = append(v, byte('a'+id.Seq%26))
	}
	return v
}

// decode reads a record back from where it was found. One that is not ours, or belongs elsewhere,
// comes back as alien.
func decode(p Place, offset int64, value []byte) Entry {
	parts := strings.SplitN(string(value), "/", 5)
	e := Entry{Offset: offset}
	if len(parts) != 5 || parts[0] != p.Topic || parts[1] != strconv.Itoa(int(p.Partition)) {
		e.Alien = fmt.Sprintf("%.60q", value)
		return e
	}
	writer, err := strconv.ParseInt(parts[2], 10, 32)
	seq, err2 := strconv.ParseInt(parts[3], 10, 64)
	e.ID = ID{int32(writer), seq}
	if err != nil || err2 != nil || strings.Trim(parts[4], string(rune('a'+seq%26))) != "" {
		e.Alien = fmt.Sprintf("%.60q", value)
	}
	return e
}
