package api

import "testing"

// TestFetchCountedOncePerTopic: however a fetch's partitions are ordered, it is one fetch of each
// topic.
func TestFetchCountedOncePerTopic(t *testing.T) {
	a, b, c := &Topic{Stats: &TopicStats{}}, &Topic{Stats: &TopicStats{}}, &Topic{Stats: &TopicStats{}}
	var s Stats
	s.fetchAnswered([]fetchResult{{topic: a}, {topic: a}})
	s.fetchAnswered([]fetchResult{{topic: a}, {topic: b}, {}, {topic: a}, {topic: c}, {topic: b}})
	for i, want := range []int64{2, 1, 1} {
		if got := []*Topic{a, b, c}[i].Stats.FetchRequests.Load(); got != want {
			t.Errorf("topic %d has %d fetches, want %d", i, got, want)
		}
	}
}
