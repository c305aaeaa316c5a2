package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient is sarama, at the protocol versions of config.Version.
type saramaClient struct {
	address string
	version sarama.KafkaVersion
	client  sarama.Client
	admin   sarama.ClusterAdmin
}

func newSarama(address string) (Client, error) { return newSaramaAt(address, sarama.DefaultVersion) }

func newSaramaNewest(address string) (Client, error) { return newSaramaAt(address, sarama.MaxVersion) }

func newSaramaAt(address string, version sarama.KafkaVersion) (Client, error) {
	sarama.Logger = log.Default()
	s := &saramaClient{address: address, version: version}
	client, err := sarama.NewClient([]string{address}, s.config())
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdmin([]string{address}, s.config())
	if err != nil {
		return nil, err
	}
	s.client, s.admin = client, admin
	return s, nil
}

func (s *saramaClient) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = s.version
	c.Metadata.Retry.Max = 40 // as it comes it gives a batch up when its only broker is away for 0.75 s
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	return c
}

func (s *saramaClient) Features() []string {
	return []string{"none", "gzip", "snappy", "lz4", "zstd", "headers", "empty", "idempotent", "cooperative"}
}

func (s *saramaClient) Close() {
	s.admin.Close()
	s.client.Close()
}

func (s *saramaClient) CreateTopic(_ context.Context, name string, partitions int) error {
	return s.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

func (s *saramaClient) DeleteTopic(_ context.Context, name string) error {
	return s.admin.DeleteTopic(name)
}

func (s *saramaClient) Topics(context.Context) (map[string]int, error) {
	list, err := s.admin.ListTopics()
	out := map[string]int{}
	for name, t := range list {
		out[name] = int(t.NumPartitions)
	}
	return out, err
}

func (s *saramaClient) Produce(ctx context.Context, topic string, records []Record, o ProduceOptions) error {
	c := s.config()
	c.Producer.Compression = map[string]sarama.CompressionCodec{
		"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[o.Codec]
	c.Producer.Flush.Frequency = 20 * time.Millisecond
	if o.Idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
		c.Producer.Retry.Max = 50
	}
	producer, err := sarama.NewAsyncProducer([]string{s.address}, c)
	if err != nil {
		return err
	}
	go func() {
		for i, r := range records {
			producer.Input() <- saramaMessage(topic, r)
			pace(o, i, len(records))
		}
	}()
	var failed error
	for range records {
		select {
		case <-producer.Successes():
		case err := <-producer.Errors():
			failed = errors.Join(failed, err.Err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(failed, producer.Close())
}

func saramaMessage(topic string, r Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: r.Time}
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return m
}

func (s *saramaClient) Consume(ctx context.Context, topic string, partition int32, from int64, count int) ([]Record, error) {
	consumer, err := sarama.NewConsumer([]string{s.address}, s.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	pc, err := consumer.ConsumePartition(topic, partition, from)
	if err != nil {
		return nil, err
	}
	defer pc.Close()
	var out []Record
	for len(out) < count {
		select {
		case m := <-pc.Messages():
			record := Record{Partition: m.Partition, Offset: m.Offset, Key: m.Key, Value: m.Value, Time: m.Timestamp}
			for _, h := range m.Headers {
				record.Headers = append(record.Headers, Header{string(h.Key), h.Value})
			}
			out = append(out, record)
		case err := <-pc.Errors():
			return out, err.Err
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	return out, nil
}

func (s *saramaClient) Offset(_ context.Context, topic string, partition int32, at int64) (int64, error) {
	if err := s.client.RefreshMetadata(topic); err != nil {
		return 0, err
	}
	return s.client.GetOffset(topic, partition, at)
}

func (s *saramaClient) Committed(_ context.Context, group, topic string, partition int32) (int64, error) {
	resp, err := s.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
	if err != nil {
		return 0, err
	}
	block := resp.GetBlock(topic, partition)
	if block == nil {
		return 0, fmt.Errorf("no answer for the partition")
	}
	if block.Err != sarama.ErrNoError {
		return 0, block.Err
	}
	return block.Offset, nil
}

// saramaMember is the handler of a consumer group's sessions: it has a partition while it consumes
// the partition's claim.
type saramaMember struct {
	gathered
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan error
}

func (s *saramaClient) Join(_ context.Context, group, topic string, cooperative bool) (Member, error) {
	c := s.config()
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if cooperative {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	}
	cg, err := sarama.NewConsumerGroup([]string{s.address}, group, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: cg, cancel: cancel, done: make(chan error, 1)}
	go func() {
		for err := range cg.Errors() {
			log.Printf("group %s: %v", group, err)
		}
	}()
	go func() {
		for ctx.Err() == nil {
			if err := cg.Consume(ctx, []string{topic}, m); err != nil && !errors.Is(err, context.Canceled) {
				m.done <- err
				return
			}
		}
		m.done <- nil
	}()
	return m, nil
}

func (m *saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.gained(claim.Partition())
	defer m.lost(claim.Partition())
	for message := range claim.Messages() {
		m.read(string(message.Value))
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) Leave() error {
	m.cancel()
	return errors.Join(<-m.done, m.group.Close())
}
