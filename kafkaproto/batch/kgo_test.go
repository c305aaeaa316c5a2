package batch

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sink is as much of a broker as a producer needs: it keeps the records it is sent.
type sink struct {
	mu      sync.Mutex
	batches [][]byte
	conns   sync.WaitGroup
}

func (s *sink) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.conns.Go(func() {
		defer server.Close()
		for s.answer(server) == nil {
		}
	})
	return client, nil
}

func (s *sink) answer(conn net.Conn) error {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, frame); err != nil {
		return err
	}
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString()
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := req.ReadFrom(r.Src); err != nil {
		return err
	}
	resp := s.handle(req)
	resp.SetVersion(version)
	out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	if resp.IsFlexible() && key != 18 {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := conn.Write(out)
	return err
}

func (s *sink) handle(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		for key, top := range map[int16]int16{0: 9, 3: 9, 18: 3, 22: 4} {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key,
				MaxVersion: top})
		}
		return resp
	case *kmsg.MetadataRequest:
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "sink", Port: 1}}
		for _, t := range req.Topics {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Leader, p.Replicas, p.ISR = 1, []int32{1}, []int32{1}
			resp.Topics = append(resp.Topics, kmsg.MetadataResponseTopic{Topic: t.Topic,
				Partitions: []kmsg.MetadataResponseTopicPartition{p}})
		}
		return resp
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = 41
		return resp
	case *kmsg.ProduceRequest:
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range req.Topics {
			rt := kmsg.ProduceResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				s.batches = append(s.batches, bytes.Clone(p.Records))
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition = p.Partition
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	}
	panic(fmt.Sprintf("sink got %T", req))
}

// TestAdmitsWhatKgoProduces takes the bytes that franz-go's producer puts on the wire, and reads
// from them the records that were given to it.
func TestAdmitsWhatKgoProduces(t *testing.T) {
	codecs := map[Codec]kgo.CompressionCodec{None: kgo.NoCompression()}
	for c, k := range kgoCodecs {
		codecs[c] = k
	}
	for codec, theirs := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			var s sink
			client, err := kgo.NewClient(kgo.SeedBrokers("sink:1"), kgo.Dialer(s.dial),
				kgo.ProducerBatchCompression(theirs), kgo.ProducerLinger(5*time.Millisecond),
				kgo.DefaultProduceTopic("t"))
			if err != nil {
				t.Fatal(err)
			}
			var sent []*kgo.Record
			for i := range 300 {
				r := &kgo.Record{Value: []byte(strings.Repeat("value ", i%40))}
				if i%3 > 0 {
					r.Key = fmt.Appendf(nil, "key %d", i)
					r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}, {Key: "null"}}
				}
				r.Timestamp = time.UnixMilli(1_700_000_000_000 + int64(i*i%97)*1000)
				sent = append(sent, r)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			client.Close()
			s.conns.Wait()
			readSink(t, codec, s.batches, sent)
		})
	}
}

func readSink(t *testing.T, codec Codec, batches [][]byte, sent []*kgo.Record) {
	t.Helper()
	c := producerCheck()
	c.NowMs, c.AfterMaxMs, c.Version = 1_700_000_000_000, math.MaxInt64, 9
	sequence := int32(0)
	for _, raw := range batches {
		before := bytes.Clone(raw)
		a, _, err := Admit(raw, c)
		if err != nil {
			t.Fatal(err)
		}
		b := mustFirst(t, a.Batch)
		if !bytes.Equal(b, before) || b.ProducerID() != 41 || b.BaseSequence() != sequence {
			t.Fatalf("batch changed or %+v", b.Header())
		}
		if codec != None && b.Codec() != codec && b.Codec() != None {
			t.Fatalf("codec is %v", b.Codec())
		}
		sequence = AddSequence(b.LastSequence(), 1)
		got, err := collect(b, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > len(sent) {
			t.Fatalf("%d records more than were sent", len(got)-len(sent))
		}
		for i, r := range got {
			want := Record{Offset: r.Offset, OffsetDelta: int32(i), Key: sent[i].Key,
				Value: sent[i].Value, Timestamp: sent[i].Timestamp.UnixMilli()}
			for _, h := range sent[i].Headers {
				want.Headers = append(want.Headers, RecordHeader(h))
			}
			if !sameRecord(r, want) {
				t.Fatalf("record is %+v, want %+v", r, want)
			}
		}
		sent = sent[len(got):]
	}
	if len(sent) > 0 {
		t.Fatalf("%d records are missing", len(sent))
	}
}
