package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
)

// kafkaGo is segmentio/kafka-go, through Writer, Reader, ConsumerGroup, Conn and Client: the first
// three speak old fixed versions, Client newer ones.
type kafkaGo struct {
	address string
	client  *kafka.Client
}

func newKafkaGo(address string) (Client, error) {
	return &kafkaGo{address, &kafka.Client{Addr: kafka.TCP(address), Timeout: patience}}, nil
}

func (k *kafkaGo) Features() []string {
	return []string{"none", "gzip", "snappy", "lz4", "zstd", "headers"}
}

func (k *kafkaGo) Close() {}

func (k *kafkaGo) CreateTopic(ctx context.Context, name string, partitions int) error {
	resp, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err != nil {
		return err
	}
	return resp.Errors[name]
}

// DeleteTopic goes through Conn, the older of the two ways.
func (k *kafkaGo) DeleteTopic(ctx context.Context, name string) error {
	conn, err := kafka.DialContext(ctx, "tcp", k.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.DeleteTopics(name)
}

func (k *kafkaGo) Topics(ctx context.Context) (map[string]int, error) {
	conn, err := kafka.DialContext(ctx, "tcp", k.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	partitions, err := conn.ReadPartitions()
	out := map[string]int{}
	for _, p := range partitions {
		out[p.Topic]++
	}
	return out, err
}

func (k *kafkaGo) Produce(ctx context.Context, topic string, records []Record, o ProduceOptions) error {
	codecs := map[string]compress.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	w := &kafka.Writer{
		Addr: kafka.TCP(k.address), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codecs[o.Codec],
		AllowAutoTopicCreation: true, BatchTimeout: 20 * time.Millisecond, BatchSize: 1000,
		// Its own transport: the shared one keeps the metadata of topics for six seconds.
		Transport: &kafka.Transport{MetadataTTL: 200 * time.Millisecond},
		Balancer:  kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		messages[i] = kafka.Message{Key: r.Key, Value: r.Value, Time: r.Time, WriterData: int(r.Partition)}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
	}
	// A topic that the request itself has made has no leader in the first answer: the Writer leaves
	// that to its caller, as its documentation shows.
	err := eventually(ctx, 10*time.Second, func() error { return ignoreOthers(w.WriteMessages(ctx, messages...)) })
	return errors.Join(err, w.Close())
}

// ignoreOthers gives the first error that is worth another try as it is, nil for none.
func ignoreOthers(err error) error {
	var many kafka.WriteErrors
	if errors.As(err, &many) && many.Count() == 0 {
		return nil
	}
	return err
}

func (k *kafkaGo) Consume(ctx context.Context, topic string, partition int32, from int64, count int) ([]Record, error) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.address}, Topic: topic, Partition: int(partition),
		MaxWait: 200 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20})
	defer r.Close()
	if err := r.SetOffset(from); err != nil {
		return nil, err
	}
	var out []Record
	for len(out) < count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return out, err
		}
		record := Record{Partition: int32(m.Partition), Offset: m.Offset, Key: m.Key, Value: m.Value, Time: m.Time}
		for _, h := range m.Headers {
			record.Headers = append(record.Headers, Header{h.Key, h.Value})
		}
		out = append(out, record)
	}
	return out, nil
}

func (k *kafkaGo) Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	request := kafka.OffsetRequest{Partition: int(partition), Timestamp: at}
	resp, err := k.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {request}}})
	if err != nil {
		return 0, err
	}
	for _, p := range resp.Topics[topic] {
		if p.Partition != int(partition) {
			continue
		}
		switch at {
		case kafka.FirstOffset:
			return p.FirstOffset, p.Error
		case kafka.LastOffset:
			return p.LastOffset, p.Error
		}
		for offset := range p.Offsets {
			return offset, p.Error
		}
		return -1, p.Error
	}
	return 0, fmt.Errorf("no answer for the partition")
}

func (k *kafkaGo) Committed(ctx context.Context, group, topic string, partition int32) (int64, error) {
	resp, err := k.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {int(partition)}}})
	if err != nil {
		return 0, err
	}
	for _, p := range resp.Topics[topic] {
		return p.CommittedOffset, errors.Join(p.Error, resp.Error)
	}
	return 0, fmt.Errorf("no answer for the partition: %w", resp.Error)
}

// kafkaGoMember runs one generation after the other; a Reader in a group hides what it is assigned.
type kafkaGoMember struct {
	gathered
	address, topic string
	group          *kafka.ConsumerGroup
	cancel         context.CancelFunc
	done           chan error
}

func (k *kafkaGo) Join(_ context.Context, group, topic string, _ bool) (Member, error) {
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: group, Brokers: []string{k.address}, Topics: []string{topic},
		HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond, StartOffset: kafka.FirstOffset})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &kafkaGoMember{address: k.address, topic: topic, group: cg, cancel: cancel, done: make(chan error, 1)}
	go m.generations(ctx)
	return m, nil
}

func (m *kafkaGoMember) generations(ctx context.Context) {
	for {
		g, err := m.group.Next(ctx)
		switch {
		case errors.Is(err, context.Canceled) || errors.Is(err, kafka.ErrGroupClosed):
			m.done <- nil
			return
		case err != nil:
			if ctx.Err() == nil {
				continue // it tries again by itself after JoinGroupBackoff
			}
			m.done <- err
			return
		}
		for _, assignment := range g.Assignments[m.topic] {
			m.gained(int32(assignment.ID))
			g.Start(func(gen context.Context) { m.consume(gen, g, assignment) })
		}
	}
}

// consume reads one partition until the generation ends, and commits after each record.
func (m *kafkaGoMember) consume(ctx context.Context, g *kafka.Generation, a kafka.PartitionAssignment) {
	defer m.lost(int32(a.ID))
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{m.address}, Topic: m.topic, Partition: a.ID,
		MaxWait: 100 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20})
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		return
	}
	for {
		message, err := r.ReadMessage(ctx)
		if err != nil {
			return
		}
		m.read(string(message.Value))
		offsets := map[string]map[int]int64{m.topic: {a.ID: message.Offset + 1}}
		if err := g.CommitOffsets(offsets); err != nil && !transient(err) {
			return
		}
	}
}

// transient tells errors of a generation that ends from others.
func transient(err error) bool {
	var timeout net.Error
	return errors.Is(err, io.EOF) || errors.As(err, &timeout) || slices.Contains([]error{kafka.RebalanceInProgress}, err) ||
		strings.Contains(err.Error(), "closed")
}

func (m *kafkaGoMember) Leave() error {
	m.cancel()
	err := <-m.done
	return errors.Join(err, m.group.Close())
}
