package liveness

import (
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// leaderOf is a machine with four connected peers that leads so many groups and has told them.
func leaderOf(groups int) (*Machine, time.Time) {
	m := New(config(1, 1), start)
	m.SetPeers(start, []kafkaproto.NodeID{1, 2, 3, 4, 5})
	for n := kafkaproto.NodeID(2); n <= 5; n++ {
		m.Connected(start, n, 1)
	}
	for i := range groups {
		m.Lead(start, groupID(i), 5, []kafkaproto.NodeID{1, 2, 3})
	}
	m.Advance(start.Add(flushDelay))
	m.Take()
	return m, start.Add(flushDelay)
}

// BenchmarkIdleRound is one beat to four peers; it must not depend on the number of groups.
func BenchmarkIdleRound(b *testing.B) {
	for _, groups := range []int{0, 10_000} {
		b.Run(map[int]string{0: "groups=0", 10_000: "groups=10000"}[groups], func(b *testing.B) {
			m, now := leaderOf(groups)
			m.cfg.DigestEvery = 1 << 60
			for n := kafkaproto.NodeID(2); n <= 5; n++ {
				m.sendDigest(now, m.peers[n])
			}
			m.Take()
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(100 * ms)
				m.Advance(now)
				m.Take()
			}
		})
	}
}

func BenchmarkDigestEncode10k(b *testing.B) {
	m, now := leaderOf(10_000)
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		m.sendDigest(now, m.peers[2])
		size = 0
		for _, f := range m.Take().Send {
			size += len(f.Body)
		}
	}
	b.ReportMetric(float64(size), "bytes")
}

// BenchmarkDigestApply10k is the first digest, to an empty table, and the one after 10 s that says nothing new.
func BenchmarkDigestApply10k(b *testing.B) {
	sender, now := leaderOf(10_000)
	digest := func() []Frame {
		sender.sendDigest(now, sender.peers[2])
		return sender.Take().Send
	}
	fresh := func() *Machine {
		m := New(config(2, 1), start)
		m.SetPeers(start, []kafkaproto.NodeID{1, 2, 3})
		m.Connected(start, 1, 1)
		return m
	}
	apply := func(b *testing.B, m *Machine, frames []Frame) {
		for _, f := range frames {
			if err := m.Receive(now, 1, f.Body); err != nil {
				b.Fatal(err)
			}
		}
		m.Take()
		if m.Groups() != 10_000 {
			b.Fatal(m.Groups())
		}
	}
	b.Run("first", func(b *testing.B) {
		frames := digest()
		b.ReportAllocs()
		for b.Loop() {
			apply(b, fresh(), frames)
		}
	})
	b.Run("again", func(b *testing.B) {
		m := fresh()
		apply(b, m, digest())
		b.ReportAllocs()
		for b.Loop() {
			apply(b, m, digest()) // with its encoding: a digest is taken once
		}
	})
}

// BenchmarkElections10k is the death of a leader of 10,000 groups, until all campaigns have left.
func BenchmarkElections10k(b *testing.B) {
	sender, now := leaderOf(10_000)
	sender.sendDigest(now, sender.peers[2])
	frames := sender.Take().Send
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m := New(config(2, 1), now)
		m.SetPeers(now, []kafkaproto.NodeID{1, 2, 3})
		m.Connected(now, 1, 1)
		for _, f := range append(frames, Frame{Body: newWriter(kindBeat, 1, 0).beat(0, 0, 0)}) {
			if err := m.Receive(now, 1, f.Body); err != nil {
				b.Fatal(err)
			}
		}
		m.Take()
		b.StartTimer()
		kill(m, now, 1)
		n := 0
		for at := now; n < 10_000; at = later(at, m.Deadline()) {
			m.Advance(at)
			n += len(m.Take().Campaigns)
		}
	}
}

// TestIdleRoundCosts pins what BenchmarkIdleRound shows: allocations of a round, with and without groups.
func TestIdleRoundCosts(t *testing.T) {
	var cost [2]float64
	for i, groups := range []int{0, 10_000} {
		m, now := leaderOf(groups)
		cost[i] = testing.AllocsPerRun(50, func() {
			now = now.Add(100 * ms)
			m.Advance(now)
			m.Take()
		})
	}
	if cost[0] != cost[1] || cost[0] > 8 {
		t.Errorf("%v allocations in an idle round without groups, %v with 10,000", cost[0], cost[1])
	}
}
