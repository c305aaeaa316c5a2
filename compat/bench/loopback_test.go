package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// The benchmarks run a whole broker in the process and talk to it over loopback with frames made
// beforehand, so that the allocations counted are the broker's.

// inProcess starts a broker and connects to it.
func inProcess(b *testing.B) *rawClient {
	b.Helper()
	static, _, err := config.NewStatic(config.Layer{Name: "bench", Values: map[string]string{
		"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "sluice.http.listeners": "",
	}})
	if err != nil {
		b.Fatal(err)
	}
	n, err := node.Start(b.Context(), node.Options{
		Static: static, Dir: filepath.Join(b.TempDir(), "data"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Stop(context.Background()) })
	c, err := net.Dial("tcp", n.Addrs()["PLAINTEXT"].String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return &rawClient{b: b, c: c, answer: make([]byte, 4<<20)}
}

// rawClient writes frames and reads answers into one buffer.
type rawClient struct {
	b      *testing.B
	c      net.Conn
	answer []byte
}

func frame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}

func (c *rawClient) write(frame []byte) {
	if _, err := c.c.Write(frame); err != nil {
		c.b.Fatal(err)
	}
}

// read gives the next answer, valid until the one after.
func (c *rawClient) read() []byte {
	if _, err := io.ReadFull(c.c, c.answer[:4]); err != nil {
		c.b.Fatal(err)
	}
	n := int(binary.BigEndian.Uint32(c.answer))
	if _, err := io.ReadFull(c.c, c.answer[:n]); err != nil {
		c.b.Fatal(err)
	}
	return c.answer[:n]
}

// call sends one request and decodes its answer.
func (c *rawClient) call(req kmsg.Request) kmsg.Response {
	c.write(frame(req))
	return c.decode(req, c.read())
}

func (c *rawClient) decode(req kmsg.Request, answer []byte) kmsg.Response {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	body := answer[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(bytes.Clone(body)); err != nil {
		c.b.Fatal(err)
	}
	return resp
}

// topic makes a topic of one partition in the given mode.
func (c *rawClient) topic(mode string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(5)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = "bench", 1, 1
	t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "sluice.durability", Value: &mode}}
	req.Topics = append(req.Topics, t)
	resp := c.call(req).(*kmsg.CreateTopicsResponse)
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		c.b.Fatal(err)
	}
}

// produceRequest holds one batch of records of 1 KiB.
func produceRequest(b *testing.B, records int) *kmsg.ProduceRequest {
	b.Helper()
	build := batch.NewBuilder(batch.BuilderOptions{})
	for range records {
		build.Add(batch.Record{Timestamp: 1, Value: make([]byte, 1024)})
	}
	made, err := build.Build()
	if err != nil {
		b.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	req.Acks, req.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = "bench"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = made
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *rawClient) mustProduce(req *kmsg.ProduceRequest, answer []byte) {
	p := c.decode(req, answer).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		c.b.Fatal(err)
	}
}

// BenchmarkProduce sends batches, five requests in flight; one operation is one acknowledged batch.
func BenchmarkProduce(b *testing.B) {
	for _, mode := range []string{"strict", "relaxed"} {
		for _, records := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/%dKiB", mode, records), func(b *testing.B) {
				c := inProcess(b)
				c.topic(mode)
				req := produceRequest(b, records)
				sent := frame(req)
				c.write(sent)
				c.mustProduce(req, c.read())
				const inFlight = 5
				b.SetBytes(int64(records) << 10)
				b.ReportAllocs()
				under := 0
				for b.Loop() {
					c.write(sent)
					if under++; under == inFlight {
						c.read()
						under--
					}
				}
				for ; under > 1; under-- {
					c.read()
				}
				c.mustProduce(req, c.read())
			})
		}
	}
}

// BenchmarkFetch reads a log from its start to its end again and again; one operation is one answer.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{16, 1024} {
		b.Run(fmt.Sprintf("%dKiB", size), func(b *testing.B) {
			c := inProcess(b)
			c.topic("relaxed")
			const batches = 1024 // of 16 records and thus about 16 KiB
			req := produceRequest(b, 16)
			for range batches {
				c.write(frame(req))
				c.mustProduce(req, c.read())
			}
			fetch := kmsg.NewPtrFetchRequest()
			fetch.SetVersion(11)
			fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 500, 1, int32(size)<<10, -1
			t := kmsg.NewFetchRequestTopic()
			t.Topic = "bench"
			p := kmsg.NewFetchRequestTopicPartition()
			p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LogStartOffset = int32(size)<<10, -1, -1
			t.Partitions = append(t.Partitions, p)
			fetch.Topics = append(fetch.Topics, t)
			sent := frame(fetch)
			offset := bytes.LastIndex(sent, binary.BigEndian.AppendUint32(nil, uint32(size)<<10)) - 16
			at, step := int64(0), int64(max(1, size/17)*16)
			total := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint64(sent[offset:], uint64(at))
				c.write(sent)
				total += int64(len(c.read()))
				if at += step; at >= batches*16 {
					at = 0
				}
			}
			if total < int64(b.N)*int64(size)<<9 {
				b.Fatalf("%d bytes in %d answers", total, b.N)
			}
			b.SetBytes(total / int64(b.N))
		})
	}
}
