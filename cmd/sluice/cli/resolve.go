package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tp names a partition.
type tp struct {
	topic     string
	partition int32
}

// span is a range of offsets of one partition: from, up to but without to.
type span struct {
	from, to int64
	// start and end are those of the log.
	start, end int64
}

// resolve turns a range into offsets of each partition, asking the broker for the ends of the logs
// and for times. partitions empty means all. Without a bound to is MaxInt64.
func resolve(ctx context.Context, c *client, topics []string, partitions []int32, r offsetRange,
	committed bool) (map[tp]span, error) {
	if _, err := topicDetails(ctx, c, topics); err != nil {
		return nil, err
	}
	out := make(map[tp]span)
	list := c.adm.ListEndOffsets
	if committed {
		list = c.adm.ListCommittedOffsets
	}
	if err := listed(ctx, list, topics, partitions, out, func(s *span, o int64) { s.end = o }); err != nil {
		return nil, err
	}
	if err := listed(ctx, c.adm.ListStartOffsets, topics, partitions, out,
		func(s *span, o int64) { s.start = o }); err != nil {
		return nil, err
	}
	for _, p := range partitions {
		for _, t := range topics {
			if _, ok := out[tp{t, p}]; !ok {
				return nil, failf(exitNotFound, "topic %q has no partition %d", t, p)
			}
		}
	}
	err := place(ctx, c, topics, partitions, r.from, out, func(s *span, o int64) {
		s.from = min(max(o, s.start), s.end)
	})
	if err != nil {
		return nil, err
	}
	if !r.bounded {
		for k, s := range out {
			s.to = math.MaxInt64
			out[k] = s
		}
		return out, nil
	}
	return out, place(ctx, c, topics, partitions, r.to, out, func(s *span, o int64) {
		s.to = max(min(o, s.end), s.from)
	})
}

// place works out one end of the range for each partition.
func place(ctx context.Context, c *client, topics []string, partitions []int32, p position,
	out map[tp]span, set func(*span, int64)) error {
	if p.whence == atTime {
		after := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return c.adm.ListOffsetsAfterMilli(ctx, p.n, topics...)
		}
		return listed(ctx, after, topics, partitions, out, set)
	}
	for k, s := range out {
		at := p.n
		switch p.whence {
		case fromStart:
			at += s.start
		case fromEnd:
			at += s.end
		case afterFrom:
			at += s.from
		}
		set(&s, at)
		out[k] = s
	}
	return nil
}

// listed asks for offsets and hands them out.
func listed(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error),
	topics []string, partitions []int32, out map[tp]span, set func(*span, int64)) error {
	found, err := list(ctx, topics...)
	silent, err := withoutLeader(err)
	if err != nil {
		return err
	}
	for _, k := range silent {
		if len(partitions) == 0 || slices.Contains(partitions, k.partition) {
			return kafkaf(fmt.Sprintf("offsets of %s/%d", k.topic, k.partition), kerr.LeaderNotAvailable,
				"the partition has no leader; its broker's log says why")
		}
	}
	for topic, ps := range found {
		for p, o := range ps {
			if len(partitions) > 0 && !slices.Contains(partitions, p) {
				continue
			}
			if o.Err != nil {
				return kafkaf("offsets of "+topic, o.Err, "")
			}
			s := out[tp{topic, p}]
			set(&s, o.Offset)
			out[tp{topic, p}] = s
		}
	}
	return nil
}

// withoutLeader takes from the error of a ListOffsets the partitions that nobody could be asked
// about, sorted; offsets of all others were listed. Another error stays one.
func withoutLeader(err error) ([]tp, error) {
	var shards *kadm.ShardErrors
	if !errors.As(err, &shards) {
		return nil, err
	}
	var out []tp
	for _, s := range shards.Errs {
		req, ok := s.Req.(*kmsg.ListOffsetsRequest)
		if !ok || !errors.Is(s.Err, kerr.LeaderNotAvailable) {
			return nil, err
		}
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				out = append(out, tp{t.Topic, p.Partition})
			}
		}
	}
	slices.SortFunc(out, func(a, b tp) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return out, nil
}
