package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicsOf lists the topics of the places once each.
func topicsOf(places []Place) []string {
	var topics []string
	for _, p := range places {
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	return topics
}

// storedIn notes which partitions of an OffsetCommit were answered without an error.
func storedIn(stored map[Place]bool) func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	return func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil || resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				stored[Place{t.Topic, p.Partition}] = p.ErrorCode == 0
			}
		}
	}
}

// readFinal reads every place from its first offset to its end, with a client of its own.
func (l *load) readFinal() (map[Place]Log, error) {
	from := map[string]map[int32]kgo.Offset{}
	for _, p := range l.places {
		if from[p.Topic] == nil {
			from[p.Topic] = map[int32]kgo.Offset{}
		}
		from[p.Topic][p.Partition] = kgo.NewOffset().At(0)
	}
	cl, err := l.client(kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topicsOf(l.places)...)
	if err != nil {
		return nil, err
	}
	logs, left := map[Place]Log{}, 0
	for _, p := range l.places {
		end, ok := ends.Lookup(p.Topic, p.Partition)
		if !ok || end.Err != nil {
			return nil, fmt.Errorf("no end of %s: %v", p, end.Err)
		}
		logs[p] = Log{End: end.Offset}
		if end.Offset > 0 {
			left++
		}
	}
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return logs, err
		}
		for _, e := range fetches.Errors() {
			return logs, errors.Join(fmt.Errorf("read %s-%d to its end", e.Topic, e.Partition), e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := Place{r.Topic, r.Partition}
			log := logs[p]
			log.Entries = append(log.Entries, decode(p, r.Offset, r.Value))
			logs[p] = log
			if r.Offset == log.End-1 {
				left--
			}
		})
	}
	return logs, nil
}
