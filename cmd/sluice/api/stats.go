package api

import (
	"sync/atomic"
	"time"
)

// numKeys bounds the API keys that the table may hold.
const numKeys = 96

// APIStats counts the requests of one API.
type APIStats struct {
	Requests  atomic.Int64
	BytesIn   atomic.Int64
	BytesOut  atomic.Int64
	TotalNano atomic.Int64 // from the frame's arrival to the answer's hand-over
	// Buckets count answers up to each bound of LatencyBounds, the last those above all.
	Buckets [len(LatencyBounds) + 1]atomic.Int64
}

// LatencyBounds are the upper bounds of the latency histogram.
var LatencyBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
}

// TopicStats counts one topic's traffic, by the names of Kafka's BrokerTopicMetrics.
type TopicStats struct {
	BytesIn, BytesOut, MessagesIn        atomic.Int64
	ProduceRequests, FetchRequests       atomic.Int64
	FailedProduces, FailedFetches        atomic.Int64
	DuplicateBatches, RewrittenByRequest atomic.Int64
}

// Stats is what the handlers count; the admin surface reads it.
type Stats struct {
	ByAPI [numKeys]APIStats
	// All sums the topics, those deleted since included.
	All TopicStats
}

// API gives the counters of one API key.
func (s *Stats) API(key int16) *APIStats { return &s.ByAPI[key] }

func (s *Stats) answered(r *Request, size int) {
	if r.row == nil {
		return
	}
	a := &s.ByAPI[r.Key]
	took := r.broker.Clock.Now().Sub(r.Received)
	a.Requests.Add(1)
	a.BytesIn.Add(int64(r.size))
	a.BytesOut.Add(int64(size))
	a.TotalNano.Add(int64(took))
	i := 0
	for i < len(LatencyBounds) && took > LatencyBounds[i] {
		i++
	}
	a.Buckets[i].Add(1)
}

func (s *Stats) produced(t *Topic, bytes, records int) {
	for _, c := range [...]*TopicStats{&s.All, t.Stats} {
		c.BytesIn.Add(int64(bytes))
		c.MessagesIn.Add(int64(records))
	}
}

func (s *Stats) produceFailed(t *Topic) {
	s.All.FailedProduces.Add(1)
	if t != nil {
		t.Stats.FailedProduces.Add(1)
	}
}

// fetchAnswered counts a fetch once for each topic in it. Results of one topic are mostly neighbours;
// where they are not, what was counted has to be remembered.
func (s *Stats) fetchAnswered(results []fetchResult) {
	var last *Topic
	var counted map[*Topic]bool
	for i := range results {
		t := results[i].topic
		if t == nil || t == last || counted[t] {
			continue
		}
		if last != nil {
			if counted == nil {
				counted = map[*Topic]bool{last: true}
			}
			counted[t] = true
		}
		last = t
		t.Stats.FetchRequests.Add(1)
	}
}

// fetched counts an answer's partitions. Neighbours of one topic are one request of it.
func (s *Stats) fetched(results []fetchResult) {
	var last *Topic
	for i := range results {
		r := &results[i]
		if r.code != 0 {
			s.All.FailedFetches.Add(1)
		}
		s.All.BytesOut.Add(int64(r.size()))
		if r.topic == nil {
			continue
		}
		if r.topic != last {
			r.topic.Stats.FetchRequests.Add(1)
			last = r.topic
		}
		if r.code != 0 {
			r.topic.Stats.FailedFetches.Add(1)
		}
		r.topic.Stats.BytesOut.Add(int64(r.size()))
	}
}
