package api

import (
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

// fetchPart is one partition of a fetch, and within a session what was last answered of it.
type fetchPart struct {
	fetchKey
	offset       kafkaproto.Offset
	maxBytes     int32
	currentEpoch kafkaproto.LeaderEpoch
	lastEpoch    kafkaproto.LeaderEpoch // last_fetched_epoch, -1 when not given

	sentHW, sentStart kafkaproto.Offset // -1: answer it whatever it is
}

// fetchSession remembers the partitions of a consumer between its fetches (KIP-227).
type fetchSession struct {
	mu    sync.Mutex
	id    int32
	epoch int32 // of the next request
	byID  bool
	parts map[fetchKey]*fetchPart
	order []*fetchPart // row 30: who returned data goes to the end

	used time.Time // guarded by the cache
}

// sessionCache holds the sessions of all consumers, at most slots of them. A full cache declines
// new sessions until one has been idle for evictAfter: declining is always legal.
type sessionCache struct {
	mu   sync.Mutex
	byID map[int32]*fetchSession
	next int32
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
	var parts []*fetchPart
	seen := make(map[fetchKey]int)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := fetchKey{t.Topic, t.TopicID, p.Partition}
			part := &fetchPart{
				fetchKey: key,
				offset:   kafkaproto.Offset(p.FetchOffset), maxBytes: p.PartitionMaxBytes,
				currentEpoch: kafkaproto.LeaderEpoch(p.CurrentLeaderEpoch),
				lastEpoch:    kafkaproto.LeaderEpoch(p.LastFetchedEpoch),
				sentHW:       -1, sentStart: -1,
			}
			if at, twice := seen[key]; twice {
				parts[at] = part // the last word counts, at the first place
				continue
			}
			seen[key] = len(parts)
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
	s := &fetchSession{epoch: 1, byID: byID, parts: make(map[fetchKey]*fetchPart, len(parts)), used: now}
	for _, p := range parts {
		s.order = append(s.order, p)
		s.parts[p.fetchKey] = p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= slots && !c.evictLocked(now) {
		return &fetchContext{full: true, parts: parts}
	}
	if c.byID == nil {
		c.byID = make(map[int32]*fetchSession)
	}
	for c.next++; c.next <= 0 || c.byID[c.next] != nil; c.next++ {
		if c.next < 0 {
			c.next = 0
		}
	}
	s.id = c.next
	c.byID[s.id] = s
	return &fetchContext{session: s, id: s.id, full: true, parts: s.order[:len(s.order):len(s.order)]}
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
	if len(s.parts) == 0 { // forgetting the last partition ends the session (§3b, row 29)
		c.drop(s.id)
		return &fetchContext{full: true}, nil
	}
	if s.epoch++; s.epoch <= 0 {
		s.epoch = 1
	}
	snapshot := make([]*fetchPart, len(s.order))
	copy(snapshot, s.order)
	return &fetchContext{session: s, id: s.id, parts: snapshot}, nil
}

// updateLocked takes in what an incremental request adds, changes and forgets.
func (s *fetchSession) updateLocked(req *kmsg.FetchRequest, parts []*fetchPart) {
	for _, p := range parts {
		if old := s.parts[p.fetchKey]; old != nil {
			// A parked fetch may still read the old value: replace, do not change.
			p.sentHW, p.sentStart = old.sentHW, old.sentStart
			for i := range s.order {
				if s.order[i] == old {
					s.order[i] = p
				}
			}
		} else {
			s.order = append(s.order, p)
		}
		s.parts[p.fetchKey] = p
	}
	forgotten := false
	for i := range req.ForgottenTopics {
		f := &req.ForgottenTopics[i]
		for _, n := range f.Partitions {
			key := fetchKey{f.Topic, f.TopicID, n}
			forgotten = forgotten || s.parts[key] != nil
			delete(s.parts, key)
		}
	}
	if !forgotten {
		return
	}
	kept := make([]*fetchPart, 0, len(s.parts))
	for _, p := range s.order {
		if s.parts[p.fetchKey] == p {
			kept = append(kept, p)
		}
	}
	s.order = kept
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
	kept := results[:0]
	moved := make(map[*fetchPart]bool)
	for i := range results {
		r := &results[i]
		changed := fc.full || r.size() > 0 || r.code != 0 || r.diverging != nil ||
			r.part.sentHW != r.hw || r.part.sentStart != r.logStart
		if r.size() > 0 {
			moved[r.part] = true
		}
		r.part.sentHW, r.part.sentStart = r.hw, r.logStart
		if r.code != 0 {
			r.part.sentHW = -1 // answered again when the error is gone
		}
		if changed {
			kept = append(kept, *r)
		}
	}
	if !fc.full && len(moved) > 0 && len(moved) < len(s.order) {
		order := make([]*fetchPart, 0, len(s.order))
		for _, p := range s.order {
			if !moved[p] {
				order = append(order, p)
			}
		}
		for _, p := range s.order {
			if moved[p] {
				order = append(order, p)
			}
		}
		s.order = order
	}
	return kept
}
