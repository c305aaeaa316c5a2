package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// onWire is what the chunks put on the wire.
func onWire(t interface{ Fatal(...any) }, chunks []server.Chunk) []byte {
	var out []byte
	for _, k := range chunks {
		var src io.ReaderAt = k.At
		if k.File != nil {
			src = k.File
		}
		if src == nil {
			out = append(out, k.Buf...)
			continue
		}
		part := make([]byte, k.Len)
		if _, err := src.ReadAt(part, k.Off); err != nil {
			t.Fatal(err)
		}
		out = append(out, part...)
	}
	return out
}

// failingFile gives no bytes.
type failingFile struct{ vfs.File }

func (failingFile) ReadAt([]byte, int64) (int, error) { return 0, errors.New("no bytes") }

// encodeRig draws results and says what kmsg would write for them.
type encodeRig struct {
	file   vfs.File
	data   []byte
	leader *leaderHint
	op     *fetchOp
}

func newEncodeRig(t *testing.T) *encodeRig {
	r := newRig(t, rigOptions{quiet: true})
	e := &encodeRig{leader: &leaderHint{node: 7, epoch: 3}, data: make([]byte, 300<<10)}
	for i := range e.data {
		e.data[i] = byte(i * 7)
	}
	var err error
	if e.file, err = vfs.Create(vfs.Memory(), "records"); err == nil {
		_, err = e.file.WriteAt(e.data, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{
		NodeID: 7, Config: r.config, Log: slog.New(slog.DiscardHandler),
		Advertise: func(*server.Conn) (string, int32) { return "broker.example", 9092 },
	}
	e.op = &fetchOp{b: b, fc: &fetchContext{id: 99}, r: &Request{Request: &server.Request{}}}
	return e
}

// draw makes one partition's result and kmsg's idea of it.
func (e *encodeRig) draw(t *rapid.T, i int) (fetchResult, kmsg.FetchResponseTopicPartition) {
	offset := rapid.Int64Range(-1, 1<<50)
	res := fetchResult{
		part:  &fetchPart{fetchKey: fetchKey{partition: int32(i)}},
		topic: &Topic{Name: "t", Stats: &TopicStats{}},
		hw:    kafkaproto.Offset(offset.Draw(t, "hw")), lso: kafkaproto.Offset(offset.Draw(t, "lso")),
		logStart:  kafkaproto.Offset(offset.Draw(t, "start")),
		committed: rapid.Bool().Draw(t, "committed"),
	}
	name := rapid.IntRange(1, 2).Draw(t, "topic")
	res.part.topic, res.part.id = fmt.Sprint("topic", name), kafkaproto.TopicID{byte(name)}
	want := kmsg.NewFetchResponseTopicPartition()
	want.Partition, want.HighWatermark, want.LastStableOffset = int32(i), int64(res.hw), int64(res.lso)
	want.LogStartOffset, want.RecordBatches = int64(res.logStart), []byte{}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0: // nothing to read
	case 1:
		res.code = kerr.UnknownTopicOrPartition.Code
	case 2:
		res.code, res.leader = kerr.FencedLeaderEpoch.Code, e.leader
		want.CurrentLeader.LeaderID, want.CurrentLeader.LeaderEpoch = 7, int32(e.leader.epoch)
	case 3:
		res.diverging = &epochEnd{3, 44}
		want.DivergingEpoch.Epoch, want.DivergingEpoch.EndOffset = 3, 44
	case 4:
		res.records = store.Range{File: failingFile{e.file}, Len: 100}
		want.ErrorCode = kerr.KafkaStorageError.Code
	default:
		n := rapid.SampledFrom([]int{1, 100, sendfileFrom - 1, sendfileFrom, 200 << 10}).Draw(t, "size")
		at := rapid.IntRange(0, len(e.data)-n).Draw(t, "at")
		res.records = store.Range{File: e.file, Pos: int64(at), Len: n}
		want.RecordBatches = e.data[at : at+n]
		for range rapid.IntRange(0, 2).Draw(t, "aborted") {
			res.aborted = append(res.aborted, store.AbortedTxn{ProducerID: 5, FirstOffset: 66})
		}
	}
	if want.ErrorCode == 0 {
		want.ErrorCode = res.code
	}
	if res.committed && res.code == 0 || res.unknown() {
		want.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for range res.aborted {
			a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			a.ProducerID, a.FirstOffset = 5, 66
			want.AbortedTransactions = append(want.AbortedTransactions, a)
		}
	}
	return res, want
}

// TestFetchEncoding compares the handwritten encoder with kmsg, byte by byte, for every version and
// every part of an answer, tags included.
func TestFetchEncoding(t *testing.T) {
	e := newEncodeRig(t)
	for v := lookup(1).Min; v <= lookup(1).Max; v++ {
		rapid.Check(t, func(t *rapid.T) {
			want := kmsg.NewPtrFetchResponse()
			want.SetVersion(v)
			want.SessionID = 99
			var results []fetchResult
			for i := range rapid.IntRange(0, 6).Draw(t, "partitions") {
				res, wp := e.draw(t, i)
				if v < 12 {
					res.diverging = nil // not computed: last_fetched_epoch is not sent
				}
				if v < 16 {
					res.leader = nil
				}
				results = append(results, res)
				last := len(want.Topics) - 1
				if last < 0 || want.Topics[last].TopicID != res.part.id {
					wt := kmsg.NewFetchResponseTopic()
					wt.Topic, wt.TopicID = res.part.topic, res.part.id
					want.Topics = append(want.Topics, wt)
					last++
				}
				if v < 16 {
					wp.CurrentLeader.Default()
				} else if res.leader != nil && len(want.Brokers) == 0 {
					b := kmsg.NewFetchResponseBroker()
					b.NodeID, b.Host, b.Port = 7, "broker.example", 9092
					want.Brokers = append(want.Brokers, b)
				}
				want.Topics[last].Partitions = append(want.Topics[last].Partitions, wp)
			}
			enc := &fetchEncoder{version: v, flexible: v >= 12}
			enc.body(e.op, results)
			if enc.inline > maxInlined {
				t.Fatalf("%d bytes of records are held in memory", enc.inline)
			}
			got := onWire(t, enc.chunks())
			if len(got) != len(enc.buf)+enc.fileSize {
				t.Fatalf("%d bytes on the wire, counted %d and %d", len(got), len(enc.buf), enc.fileSize)
			}
			if exp := want.AppendTo(nil); !bytes.Equal(got, exp) {
				at := 0
				for at < min(len(got), len(exp)) && got[at] == exp[at] {
					at++
				}
				t.Fatalf("version %d differs at byte %d of %d (want %d)", v, at, len(got), len(exp))
			}
		})
	}
}
