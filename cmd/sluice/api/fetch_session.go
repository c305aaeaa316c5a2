package api

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// fetchKey names a partition within a session: by topic id from Fetch 13 on, by name before.
type fetchKey struct {
	topic     string
	id        kafkaproto.TopicID
	partition int32
}

// fetchPart is what a request, or an earlier one of its session, asks of a partition. It never
// changes: a parked fetch reads on from the one it came with.
type fetchPart struct {
	fetchKey
	offset       kafkaproto.Offset
	maxBytes     int32
	currentEpoch kafkaproto.LeaderEpoch
	lastEpoch    kafkaproto.LeaderEpoch // last_fetched_epoch, -1 when not given

	slot *sessionSlot // nil outside of a session
}

// sessionSlot is a partition's place in a session: what is asked of it now, and what was answered
// last.
type sessionSlot struct {
	part              *fetchPart
	sentHW, sentStart kafkaproto.Offset // -1: answer it whatever it is
	moved             bool              // returned data in the answer that is being made
}

// fetchSession remembers the partitions of a consumer between its fetches (KIP-227).
type fetchSession struct {
	mu    sync.Mutex
	id    int32
	epoch int32 // of the next request
	byID  bool
	slots map[fetchKey]*sessionSlot
	order []*sessionSlot // row 30: who returned data goes to the end

	used time.Time // guarded by the cache
}

// sessionCache holds the sessions of all consumers, at most slots of them. A full cache declines
// new sessions until one has been idle for evictAfter: declining is always legal.
//
// Ids are drawn at random: were they counted, a consumer that comes back after a restart of the
// broker could hold the id, and the epoch, of another's new session.
type sessionCache struct {
	mu   sync.Mutex
	byID map[int32]*fetchSession
}

const evictAfter = 2 * time.Minute

// fetchContext is one fetch request joined with its session, if it has one.
type fetchContext struct {
	session *fetchSession // nil: a fetch without one
	id      int32         // session id to answer
	full    bool          // answer every partition, not the changed ones alone
	parts   []*fetchPart
}

// partsOf reads the partitions of a request.
func partsOf(req *kmsg.FetchRequest) []*fetchPart {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if n == 0 {
		return nil
	}
	all := make([]fetchPart, 0, n)
	parts := make([]*fetchPart, 0, n)
	var seen map[fetchKey]int // where a key stands in parts; one partition needs none
	if n > 1 {
		seen = make(map[fetchKey]int, n)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			all = append(all, fetchPart{
				fetchKey: fetchKey{t.Topic, t.TopicID, p.Partition},
				offset:   kafkaproto.Offset(p.FetchOffset), maxBytes: p.PartitionMaxBytes,
				currentEpoch: kafkaproto.LeaderEpoch(p.CurrentLeaderEpoch),
				lastEpoch:    kafkaproto.LeaderEpoch(p.LastFetchedEpoch),
			})
			part := &all[len(all)-1]
			if at, twice := seen[part.fetchKey]; twice {
				parts[at] = part // the last word counts, at the first place
				continue
			}
			if seen != nil {
				seen[part.fetchKey] = len(parts)
			}
			parts = append(parts, part)
		}
	}
	return parts
}

// begin joins a request with its session, by the rules of row 29: epoch -1 has no session and
// ends the one it names, 0 asks for a new one, any other continues one.
func (c *sessionCache) begin(
	req *kmsg.FetchRequest, now time.Time, slots int,
) (*fetchContext, error) {
	parts := partsOf(req)
	switch {
	case req.Version < 7 || req.SessionEpoch == -1:
		if req.SessionID != 0 {
			c.drop(req.SessionID)
		}
		return &fetchContext{full: true, parts: parts}, nil
	case req.SessionEpoch == 0:
		if req.SessionID != 0 {
			c.drop(req.SessionID)
		}
		return c.create(parts, req.Version >= 13, now, slots), nil
	}
	return c.resume(req, parts, now)
}

func (c *sessionCache) create(
	parts []*fetchPart, byID bool, now time.Time, slots int,
) *fetchContext {
	s := &fetchSession{epoch: 1, byID: byID, slots: make(map[fetchKey]*sessionSlot, len(parts)), used: now}
	for _, p := range parts {
		s.putLocked(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= slots && !c.evictLocked(now) {
		for _, p := range parts {
			p.slot = nil
		}
		return &fetchContext{full: true, parts: parts}
	}
	if c.byID == nil {
		c.byID = make(map[int32]*fetchSession)
	}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	c.byID[s.id] = s
	return &fetchContext{session: s, id: s.id, full: true, parts: parts}
}

// evictLocked makes room by dropping the session that was idle longest, if that is long enough.
func (c *sessionCache) evictLocked(now time.Time) bool {
	var oldest *fetchSession
	for _, s := range c.byID {
		if oldest == nil || s.used.Before(oldest.used) {
			oldest = s
		}
	}
	if oldest == nil || now.Sub(oldest.used) < evictAfter {
		return false
	}
	delete(c.byID, oldest.id)
	return true
}

func (c *sessionCache) resume(
	req *kmsg.FetchRequest, parts []*fetchPart, now time.Time,
) (*fetchContext, error) {
	c.mu.Lock()
	s := c.byID[req.SessionID]
	if s != nil {
		s.used = now
	}
	c.mu.Unlock()
	if s == nil {
		return nil, kafkaproto.Faultf(kerr.FetchSessionIDNotFound, "fetch session %d", req.SessionID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != req.SessionEpoch {
		return nil, kafkaproto.Faultf(kerr.InvalidFetchSessionEpoch,
			"fetch session %d expects epoch %d, not %d", s.id, s.epoch, req.SessionEpoch)
	}
	if s.byID != (req.Version >= 13) {
		return nil, kafkaproto.Faultf(kerr.FetchSessionTopicIDError,
			"fetch session %d changed between topic names and ids", s.id)
	}
	s.updateLocked(req, parts)
	if len(s.order) == 0 { // forgetting the last partition ends the session (§3b, row 29)
		c.drop(s.id)
		return &fetchContext{full: true}, nil
	}
	if s.epoch++; s.epoch <= 0 {
		s.epoch = 1
	}
	snapshot := make([]*fetchPart, len(s.order))
	for i, slot := range s.order {
		snapshot[i] = slot.part
	}
	return &fetchContext{session: s, id: s.id, parts: snapshot}, nil
}

// updateLocked takes in what an incremental request adds, changes and forgets.
func (s *fetchSession) updateLocked(req *kmsg.FetchRequest, parts []*fetchPart) {
	for _, p := range parts {
		s.putLocked(p)
	}
	forgotten := false
	for i := range req.ForgottenTopics {
		f := &req.ForgottenTopics[i]
		for _, n := range f.Partitions {
			key := fetchKey{f.Topic, f.TopicID, n}
			if slot := s.slots[key]; slot != nil {
				delete(s.slots, key)
				slot.part, forgotten = nil, true
			}
		}
	}
	if forgotten {
		s.order = slices.DeleteFunc(s.order, func(slot *sessionSlot) bool { return slot.part == nil })
	}
}

// putLocked gives a partition its place, or what is asked of it a new value.
func (s *fetchSession) putLocked(p *fetchPart) {
	p.slot = s.slots[p.fetchKey]
	if p.slot == nil {
		p.slot = &sessionSlot{sentHW: -1, sentStart: -1}
		s.slots[p.fetchKey] = p.slot
		s.order = append(s.order, p.slot)
	}
	p.slot.part = p
}

func (c *sessionCache) drop(id int32) {
	c.mu.Lock()
	delete(c.byID, id)
	c.mu.Unlock()
}

// Sessions counts the fetch sessions, for metrics.
func (b *Broker) Sessions() int {
	b.sessions.mu.Lock()
	defer b.sessions.mu.Unlock()
	return len(b.sessions.byID)
}

// filter keeps what an incremental answer must name: partitions with records or an error, or
// whose high watermark or log start moved since they were last answered. Those that return data
// move to the end of the session's order.
func (fc *fetchContext) filter(results []fetchResult) []fetchResult {
	s := fc.session
	if s == nil {
		return results
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, moved := results[:0], 0
	for i := range results {
		r := &results[i]
		slot := r.part.slot
		changed := fc.full || r.size() > 0 || r.code != 0 || r.diverging != nil ||
			slot.sentHW != r.hw || slot.sentStart != r.logStart
		slot.sentHW, slot.sentStart = r.hw, r.logStart
		if r.code != 0 {
			slot.sentHW = -1 // answered again when the error is gone
		}
		if r.size() > 0 && !fc.full {
			slot.moved = true
			moved++
		}
		if changed {
			kept = append(kept, *r)
		}
	}
	if moved > 0 {
		s.rotateLocked()
	}
	return kept
}

// rotateLocked moves the partitions that returned data to the end, in the order they have.
func (s *fetchSession) rotateLocked() {
	moved := make([]*sessionSlot, 0, len(s.order))
	rest := s.order[:0]
	for _, slot := range s.order {
		if slot.moved {
			slot.moved = false
			moved = append(moved, slot)
		} else {
			rest = append(rest, slot)
		}
	}
	s.order = append(rest, moved...)
}
