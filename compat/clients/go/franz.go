package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go. Its producer is idempotent unless told otherwise.
type franz struct {
	base   []kgo.Opt // what each of its clients begins with
	client *kgo.Client
	admin  *kadm.Client
}

// newFranz makes it; over TLS when BROKER_CA names the file of an authority. BROKER_PEM is then the
// file with the certificate and key that it shows.
func newFranz(address string) (Client, error) {
	base := []kgo.Opt{kgo.SeedBrokers(address)}
	if ca := os.Getenv("BROKER_CA"); ca != "" {
		conf, err := tlsConfig(ca, os.Getenv("BROKER_PEM"))
		if err != nil {
			return nil, err
		}
		base = append(base, kgo.DialTLSConfig(conf))
	}
	client, err := kgo.NewClient(base...)
	if err != nil {
		return nil, err
	}
	return &franz{base: base, client: client, admin: kadm.NewClient(client)}, nil
}

func tlsConfig(ca, own string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	if !conf.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + ca)
	}
	if own != "" {
		pair, err := tls.LoadX509KeyPair(own, own)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// with adds options to those that each client begins with.
func (f *franz) with(more ...kgo.Opt) []kgo.Opt { return append(slices.Clone(f.base), more...) }

func (f *franz) Features() []string {
	return []string{"none", "gzip", "snappy", "lz4", "zstd", "headers", "empty", "null headers", "idempotent", "cooperative"}
}

func (f *franz) Close() { f.client.Close() }

func (f *franz) CreateTopic(ctx context.Context, name string, partitions int) error {
	resp, err := f.admin.CreateTopic(ctx, int32(partitions), -1, nil, name)
	return errors.Join(err, resp.Err)
}

func (f *franz) DeleteTopic(ctx context.Context, name string) error {
	resp, err := f.admin.DeleteTopic(ctx, name)
	return errors.Join(err, resp.Err)
}

func (f *franz) Topics(ctx context.Context) (map[string]int, error) {
	list, err := f.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, t := range list {
		out[t.Topic] = len(t.Partitions)
	}
	return out, list.Error()
}

func (f *franz) Produce(ctx context.Context, topic string, records []Record, o ProduceOptions) error {
	codecs := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := f.with(kgo.ProducerBatchCompression(codecs[o.Codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(),
		kgo.ProducerLinger(20*time.Millisecond))
	if !o.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	var mu sync.Mutex
	var first error
	for i, r := range records {
		record := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
		})
		pace(o, i, len(records))
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return first
}

func (f *franz) Consume(ctx context.Context, topic string, partition int32, from int64, count int) ([]Record, error) {
	client, err := kgo.NewClient(f.with(kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var out []Record
	for len(out) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return out, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			record := Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Timestamp}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, Header{h.Key, h.Value})
			}
			out = append(out, record)
		})
	}
	return out, nil
}

func (f *franz) Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	var list kadm.ListedOffsets
	var err error
	switch at {
	case -1:
		list, err = f.admin.ListEndOffsets(ctx, topic)
	case -2:
		list, err = f.admin.ListStartOffsets(ctx, topic)
	default:
		list, err = f.admin.ListOffsetsAfterMilli(ctx, at, topic)
	}
	if err != nil {
		return 0, err
	}
	got, ok := list.Lookup(topic, partition)
	if !ok || got.Err != nil {
		return 0, fmt.Errorf("not listed, or %v", got.Err)
	}
	// kadm answers the end where the broker says that no record is that late, and keeps the time -1.
	if at >= 0 && got.Timestamp == -1 {
		return -1, nil
	}
	return got.Offset, nil
}

func (f *franz) Committed(ctx context.Context, group, topic string, partition int32) (int64, error) {
	offsets, err := f.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	got, ok := offsets.Lookup(topic, partition)
	if !ok {
		return -1, nil
	}
	return got.At, got.Err
}

// franzMember polls in one goroutine until it leaves.
type franzMember struct {
	gathered
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}
}

func (f *franz) Join(_ context.Context, group, topic string, cooperative bool) (Member, error) {
	m := &franzMember{done: make(chan struct{})}
	balancer := kgo.RangeBalancer()
	if cooperative {
		balancer = kgo.CooperativeStickyBalancer()
	}
	client, err := kgo.NewClient(f.with(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.gained(got[topic]...) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.lost(gone[topic]...) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.lost(gone[topic]...) }),
	)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.client, m.cancel = client, cancel
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { m.read(string(r.Value)) })
		}
	}()
	return m, nil
}

func (m *franzMember) Leave() error {
	m.cancel()
	<-m.done
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := m.client.CommitUncommittedOffsets(ctx)
	m.client.Close()
	return err
}
