package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// eventually repeats a check until it passes, or gives its last answer when the time is up.
func eventually(ctx context.Context, within time.Duration, check func() error) error {
	end := time.Now().Add(within)
	for {
		err := check()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shares checks how many partitions of four each member has, and that none is had twice.
func shares(members []Member, want ...int) func() error {
	return func() error {
		var all []int32
		for i, m := range members {
			if n := len(m.Assigned()); n != want[i] {
				return fmt.Errorf("member %d has %d partitions, want %d", i, n, want[i])
			}
			all = append(all, m.Assigned()...)
		}
		slices.Sort(all)
		if !slices.Equal(all, []int32{0, 1, 2, 3}) {
			return fmt.Errorf("the members have partitions %v", all)
		}
		return nil
	}
}

// group: one member gets all partitions, a second one half of them, and when it leaves the first has
// all again. What is sent meanwhile is read, and what was read is committed.
func (s *scenario) group(ctx context.Context, cooperative bool) (err error) {
	name := fmt.Sprintf("group-%v", cooperative)
	topic, group := s.topic(name), s.topic(name)
	if err := s.client.CreateTopic(ctx, topic, 4); err != nil {
		return err
	}
	first, err := s.client.Join(ctx, group, topic, cooperative)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Leave()) }()
	if err := eventually(ctx, 10*time.Second, shares([]Member{first}, 4)); err != nil {
		return fmt.Errorf("one member: %w", err)
	}
	if err := s.feed(ctx, topic, 0); err != nil {
		return err
	}
	if err := eventually(ctx, 10*time.Second, received(100, first)); err != nil {
		return fmt.Errorf("one member: %w", err)
	}
	second, err := s.client.Join(ctx, group, topic, cooperative)
	if err != nil {
		return err
	}
	if err := eventually(ctx, 15*time.Second, shares([]Member{first, second}, 2, 2)); err != nil {
		return errors.Join(fmt.Errorf("two members: %w", err), second.Leave())
	}
	if err := s.feed(ctx, topic, 100); err != nil {
		return err
	}
	if err := eventually(ctx, 10*time.Second, received(200, first, second)); err != nil {
		return errors.Join(fmt.Errorf("two members: %w", err), second.Leave())
	}
	if len(second.Received()) == 0 {
		return fmt.Errorf("the second member read nothing")
	}
	if err := second.Leave(); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	if err := eventually(ctx, 15*time.Second, shares([]Member{first}, 4)); err != nil {
		return fmt.Errorf("after one left: %w", err)
	}
	if err := s.feed(ctx, topic, 200); err != nil {
		return err
	}
	return eventually(ctx, 10*time.Second, received(300, first, second))
}

// feed sends a hundred numbered records, spread over the four partitions.
func (s *scenario) feed(ctx context.Context, topic string, from int) error {
	records := numbered(from, 100)
	for i := range records {
		records[i].Partition = int32(i % 4)
	}
	return s.client.Produce(ctx, topic, records, ProduceOptions{})
}

// received checks that the members together have read the first n numbers, each at least once.
func received(n int, members ...Member) func() error {
	return func() error {
		seen := map[string]bool{}
		for _, m := range members {
			for _, v := range m.Received() {
				seen[v] = true
			}
		}
		if len(seen) != n {
			return fmt.Errorf("%d different records were read, want %d", len(seen), n)
		}
		return nil
	}
}

// committed: a group goes on where it stopped, after the broker was killed and after it was restarted.
func (s *scenario) committed(ctx context.Context) error {
	topic, group := s.topic("committed"), s.topic("committed")
	if err := s.client.CreateTopic(ctx, topic, 1); err != nil {
		return err
	}
	for round, verb := range []string{"crash", "restart", ""} {
		if err := s.client.Produce(ctx, topic, numbered(10*round, 10), ProduceOptions{}); err != nil {
			return fmt.Errorf("produce, round %d: %w", round, err)
		}
		member, err := s.client.Join(ctx, group, topic, false)
		if err != nil {
			return fmt.Errorf("join, round %d: %w", round, err)
		}
		err = eventually(ctx, 10*time.Second, received(10, member))
		if left := member.Leave(); err == nil {
			err = left
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		got := member.Received()
		slices.Sort(got)
		if want := values(numbered(10*round, 10)); !slices.Equal(got, want) {
			return fmt.Errorf("round %d read %v, want %v", round, got, want)
		}
		if verb != "" {
			if err := broker(verb); err != nil {
				return err
			}
		}
		// Again after an error: the client may still hold a connection that the restart has cut.
		err = eventually(ctx, 5*time.Second, func() error {
			at, err := s.client.Committed(ctx, group, topic, 0)
			if want := int64(10 * (round + 1)); err == nil && at != want {
				err = fmt.Errorf("committed offset %d, want %d", at, want)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("committed, round %d: %w", round, err)
		}
	}
	return nil
}
