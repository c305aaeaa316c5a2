package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// patience bounds each thing that is tried.
const patience = 30 * time.Second

// scenario is one client's run. Topics and groups carry its name, since clients share the broker.
type scenario struct {
	name   string
	client Client
	failed bool
}

func (s *scenario) run() {
	defer s.client.Close()
	s.try("topic: create, list, create again", s.topics)
	s.try("topic: made by the first record", s.autoCreate)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if s.has(codec) {
			s.try("codec "+codec, func(ctx context.Context) error { return s.codec(ctx, codec) })
		}
	}
	s.try("keys and values: null, empty, any bytes", s.nulls)
	if s.has("headers") {
		s.try("headers", s.headers)
	}
	s.try("timestamps and offsets by time", s.times)
	s.try("a message of 900 KiB", s.large)
	if s.has("idempotent") {
		s.try("idempotent producer through kill -9 and a restart", s.idempotent)
	}
	s.try("group: two members, one leaves", func(ctx context.Context) error { return s.group(ctx, false) })
	if s.has("cooperative") {
		s.try("group: the same, cooperative", func(ctx context.Context) error { return s.group(ctx, true) })
	}
	s.try("committed offsets outlive kill -9 and a restart", s.committed)
	s.try("topic: delete, and made anew under the same name", s.recreate)
}

// try runs one step and prints how it went. ONLY in the environment leaves out the steps whose names
// do not hold it.
func (s *scenario) try(name string, step func(context.Context) error) {
	if only := os.Getenv("ONLY"); !strings.Contains(name, only) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := step(ctx); err != nil {
		fmt.Printf("FAIL %s %s: %s\n", s.name, name, strings.ReplaceAll(err.Error(), "\n", " "))
		s.failed = true
		return
	}
	fmt.Printf("ok %s %s\n", s.name, name)
}

func (s *scenario) has(feature string) bool { return contains(s.client.Features(), feature) }

func (s *scenario) topic(name string) string { return s.name + "-" + name }

func (s *scenario) topics(ctx context.Context) error {
	topic := s.topic("created")
	if err := s.client.CreateTopic(ctx, topic, 3); err != nil {
		return err
	}
	topics, err := s.client.Topics(ctx)
	if err != nil {
		return err
	}
	if topics[topic] != 3 {
		return fmt.Errorf("listed with %d partitions, want 3: %v", topics[topic], topics)
	}
	if err := s.client.CreateTopic(ctx, topic, 3); err == nil || !strings.Contains(strings.ToLower(err.Error()), "exist") {
		return fmt.Errorf("creating it again gave %v", err)
	}
	return nil
}

func (s *scenario) autoCreate(ctx context.Context) error {
	topic := s.topic("auto")
	if err := s.client.Produce(ctx, topic, numbered(0, 10), ProduceOptions{}); err != nil {
		return err
	}
	return s.expect(ctx, topic, 0, numbered(0, 10))
}

func (s *scenario) codec(ctx context.Context, codec string) error {
	topic := s.topic(codec)
	if err := s.client.CreateTopic(ctx, topic, 1); err != nil {
		return err
	}
	var records []Record
	for i := range 500 {
		records = append(records, Record{Key: fmt.Appendf(nil, "key %d", i%7), Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("value ", 20))})
	}
	if err := s.client.Produce(ctx, topic, records, ProduceOptions{Codec: codec}); err != nil {
		return err
	}
	stored, err := storedCodec(topic)
	if err != nil {
		return err
	}
	if stored != codec {
		return fmt.Errorf("what lies on disk is %s", stored)
	}
	return s.expect(ctx, topic, 0, records)
}

func (s *scenario) nulls(ctx context.Context) error {
	topic := s.topic("nulls")
	records := []Record{
		{Key: []byte("k"), Value: []byte("v")},
		{Key: []byte("k"), Value: nil},
		{Key: nil, Value: []byte("v")},
		{Key: []byte{}, Value: []byte("v")},
		{Key: []byte("k"), Value: []byte{}},
		{Key: nil, Value: nil},
		{Key: []byte{0, 0xff, '\n'}, Value: []byte{0x80, 0}},
	}
	if err := s.client.Produce(ctx, topic, records, ProduceOptions{}); err != nil {
		return err
	}
	return s.expect(ctx, topic, 0, records)
}

func (s *scenario) headers(ctx context.Context) error {
	topic := s.topic("headers")
	records := []Record{
		{Value: []byte("1"), Headers: []Header{{"a", []byte("1")}, {"b", []byte{}}, {"a", []byte("2")}, {"", []byte{0xff}}}},
		{Value: []byte("2")},
		{Value: []byte("3"), Headers: []Header{{"ключ", []byte("значение")}}},
	}
	if s.has("null headers") {
		records[1].Headers = []Header{{"null", nil}}
	}
	if err := s.client.Produce(ctx, topic, records, ProduceOptions{}); err != nil {
		return err
	}
	return s.expect(ctx, topic, 0, records)
}

func (s *scenario) times(ctx context.Context) error {
	topic := s.topic("times")
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	records := numbered(0, 10)
	for i := range records {
		records[i].Time = start.Add(time.Duration(i) * time.Minute)
	}
	if err := s.client.Produce(ctx, topic, records, ProduceOptions{}); err != nil {
		return err
	}
	if err := s.expect(ctx, topic, 0, records); err != nil {
		return err
	}
	for _, c := range []struct {
		at   int64
		want int64
	}{
		{-2, 0}, {-1, 10},
		{start.UnixMilli() - 5, 0},
		{start.UnixMilli(), 0},
		{start.Add(3 * time.Minute).UnixMilli(), 3},
		{start.Add(3*time.Minute + time.Millisecond).UnixMilli(), 4},
		{start.Add(9 * time.Minute).UnixMilli(), 9},
		{start.Add(10 * time.Minute).UnixMilli(), -1},
	} {
		got, err := s.client.Offset(ctx, topic, 0, c.at)
		if err != nil {
			return fmt.Errorf("offset by time %d: %w", c.at, err)
		}
		if got != c.want {
			return fmt.Errorf("offset by time %d is %d, want %d", c.at, got, c.want)
		}
	}
	return nil
}

func (s *scenario) large(ctx context.Context) error {
	topic := s.topic("large")
	value := make([]byte, 900<<10)
	rand.Read(value)
	records := []Record{{Value: []byte("before")}, {Value: value}, {Value: []byte("after")}}
	if err := s.client.Produce(ctx, topic, records, ProduceOptions{}); err != nil {
		return err
	}
	return s.expect(ctx, topic, 0, records)
}

// idempotent kills and restarts the broker while records are sent: all of them are there once, in order.
func (s *scenario) idempotent(ctx context.Context) error {
	topic := s.topic("idempotent")
	if err := s.client.CreateTopic(ctx, topic, 1); err != nil {
		return err
	}
	records := numbered(0, 2000)
	done := make(chan error, 1)
	go func() {
		done <- s.client.Produce(ctx, topic, records, ProduceOptions{Idempotent: true, Slowly: 2 * time.Second})
	}()
	for _, verb := range []string{"crash", "restart"} {
		time.Sleep(600 * time.Millisecond)
		if err := broker(verb); err != nil {
			return err
		}
	}
	if err := <-done; err != nil {
		return err
	}
	end, err := s.client.Offset(ctx, topic, 0, -1)
	if err != nil {
		return err
	}
	if end != int64(len(records)) {
		return fmt.Errorf("%d records are in the log, %d were sent", end, len(records))
	}
	return s.expect(ctx, topic, 0, records)
}

// recreate deletes a topic and makes it anew: the old records are gone, offsets begin at 0.
func (s *scenario) recreate(ctx context.Context) error {
	topic := s.topic("again")
	for round, count := range []int{7, 3} {
		if err := s.client.CreateTopic(ctx, topic, 1); err != nil {
			return fmt.Errorf("create, round %d: %w", round, err)
		}
		records := numbered(100*round, count)
		if err := s.client.Produce(ctx, topic, records, ProduceOptions{}); err != nil {
			return fmt.Errorf("produce, round %d: %w", round, err)
		}
		end, err := s.client.Offset(ctx, topic, 0, -1)
		if err != nil {
			return err
		}
		if end != int64(count) {
			return fmt.Errorf("round %d ends at %d, want %d", round, end, count)
		}
		if err := s.expect(ctx, topic, 0, records); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if err := s.client.DeleteTopic(ctx, topic); err != nil {
			return err
		}
		// A client may answer from what it knew a moment ago.
		err = eventually(ctx, 10*time.Second, func() error {
			topics, err := s.client.Topics(ctx)
			if _, found := topics[topic]; found {
				return fmt.Errorf("still listed after it was deleted")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// expect reads a partition from the start and compares it with what was sent.
func (s *scenario) expect(ctx context.Context, topic string, partition int32, want []Record) error {
	got, err := s.client.Consume(ctx, topic, partition, 0, len(want))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for i, w := range want {
		if i >= len(got) {
			return fmt.Errorf("%d records came back, want %d", len(got), len(want))
		}
		if !s.has("empty") {
			w, got[i] = emptyAsNull(w), emptyAsNull(got[i])
		}
		if err := compare(w, got[i], int64(i)); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

func compare(want, got Record, offset int64) error {
	switch {
	case got.Offset != offset:
		return fmt.Errorf("offset %d", got.Offset)
	case !same(want.Key, got.Key):
		return fmt.Errorf("key %s, want %s", show(got.Key), show(want.Key))
	case !same(want.Value, got.Value):
		return fmt.Errorf("value %s, want %s", show(got.Value), show(want.Value))
	case len(want.Headers) != len(got.Headers):
		return fmt.Errorf("headers %v, want %v", got.Headers, want.Headers)
	case !want.Time.IsZero() && want.Time.UnixMilli() != got.Time.UnixMilli():
		return fmt.Errorf("time %v, want %v", got.Time, want.Time)
	case want.Time.IsZero() && time.Since(got.Time).Abs() > time.Minute:
		return fmt.Errorf("time %v is not the present", got.Time)
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !same(got.Headers[i].Value, h.Value) {
			return fmt.Errorf("headers %v, want %v", got.Headers, want.Headers)
		}
	}
	return nil
}

// emptyAsNull is for a client that reads both as the same.
func emptyAsNull(r Record) Record {
	if len(r.Key) == 0 {
		r.Key = nil
	}
	if len(r.Value) == 0 {
		r.Value = nil
	}
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		if len(r.Headers[i].Value) == 0 {
			r.Headers[i].Value = nil
		}
	}
	return r
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q (%d bytes)", b[:min(len(b), 20)], len(b))
}

// numbered are records whose values count from a number on.
func numbered(from, count int) []Record {
	out := make([]Record, count)
	for i := range out {
		out[i].Value = fmt.Append(nil, from+i)
	}
	return out
}

func values(records []Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	sort.Strings(out)
	return out
}
