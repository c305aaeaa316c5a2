package transport

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// sink releases what comes, and lets the sender go on a lot at a time.
type sink struct {
	recorder
	messages atomic.Int64
	lot      int64
	arrived  chan struct{}
}

func (s *sink) Raft(_ kafkaproto.NodeID, ms []Message) {
	for i := range ms {
		ms[i].Release()
		if s.messages.Add(1)%s.lot == 0 {
			s.arrived <- struct{}{}
		}
	}
}

// benchmarkSend sends lots of messages over loopback, four lots on their way at a time.
func benchmarkSend(b *testing.B, size, lot int) {
	const lots = 4
	a, s := &recorder{}, &sink{lot: int64(lot), arrived: make(chan struct{}, lots)}
	one := startNode(b, 1, a, nil)
	two, err := NewTCP(Options{ClusterID: "c", Node: 2, Incarnation: 1, Listen: "127.0.0.1:0", Secret: testSecret})
	if err != nil {
		b.Fatal(err)
	}
	two.Start(s)
	defer func() { _ = two.Close() }()
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: two.Addr().String()}})
	eventually(b, "node 2 is up", func() bool { return a.events() == "up 2.1" })
	m := appendMessage(group(1), 1, size)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	under, sent := 0, 0
	for b.Loop() {
		if sent%lot == 0 {
			if under == lots {
				<-s.arrived
				under--
			}
			under++
		}
		one.Send(2, m)
		sent++
	}
	for ; sent%lot != 0; sent++ {
		one.Send(2, m)
	}
	for ; under > 0; under-- {
		<-s.arrived
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "msgs/s")
}

func BenchmarkSmall(b *testing.B)  { benchmarkSend(b, 300, 1024) }
func BenchmarkOneMiB(b *testing.B) { benchmarkSend(b, 1<<20, 4) }
func BenchmarkEightK(b *testing.B) { benchmarkSend(b, 8<<10, 256) }
func BenchmarkEncode(b *testing.B) {
	w := &frameWriter{buf: make([]byte, 0, writeBuffer)}
	m := appendMessage(group(1), 1, 300)
	b.ReportAllocs()
	for b.Loop() {
		_ = w.message(&m)
		w.drop()
	}
}

func BenchmarkDecode(b *testing.B) {
	m := appendMessage(group(1), 1, 300)
	w := &frameWriter{buf: make([]byte, 0, writeBuffer)}
	_ = w.message(&m)
	in := bytes.NewReader(w.buf)
	r := newFrameReader(in, readBuffer, everything, nil)
	var payload [300]byte
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(w.buf)
		r.r.Reset(in)
		fr, err := r.next()
		if err != nil {
			b.Fatal(err)
		}
		var got Message
		if err := parseRaft(fr.body, &got); err != nil {
			b.Fatal(err)
		}
		_ = r.payload(payload[:])
	}
}
