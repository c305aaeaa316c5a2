package liveness

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// firstDown runs until broker 1 takes node for down and gives how long it took and why.
func firstDown(b *brokers, node kafkaproto.NodeID, most time.Duration) (time.Duration, Reason) {
	begin, why := b.now, NoReason
	b.runWhile(most, func() bool {
		for _, c := range b.took(1).Peers {
			if c.Node == node && !c.Up {
				why = c.Reason
			}
		}
		return why == NoReason
	})
	return b.now.Sub(begin), why
}

// TestSilence cuts a broker off at each phase of the beat: down in 1.0 to 1.2 s.
func TestSilence(t *testing.T) {
	for phase := time.Duration(0); phase < 100*ms; phase += 7 * ms {
		b := newBrokers(t, 3)
		b.run(phase)
		b.off[3] = true
		d, why := firstDown(b, 3, 5*time.Second)
		if why != Silent || d < time.Second || d > 1200*ms {
			t.Errorf("cut %v after a beat: down after %v, %v", phase, d, why)
		}
		if !b.m[1].Up(2) || !b.m[1].Quorum() {
			t.Error("the other peer or the quorum went, too")
		}
	}
}

// TestSilentBlip lets a broker come back as it was: its leaderships live again without a word more.
func TestSilentBlip(t *testing.T) {
	b := newBrokers(t, 3)
	b.m[3].Lead(b.now, groupID(1), 2, []kafkaproto.NodeID{3})
	b.run(100 * ms)
	b.off[3] = true
	b.run(2 * time.Second)
	b.wantLeader(1, groupID(1), 2, 3, false)
	b.off[3] = false
	b.run(300 * ms)
	b.wantLeader(1, groupID(1), 2, 3, true)
	if c := b.m[3].Counters(); c.LateRounds != 1 || !b.m[3].Up(1) || !b.m[3].Up(2) {
		t.Errorf("after standing still: %+v, peers up %t %t", c, b.m[3].Up(1), b.m[3].Up(2))
	}
}

func TestKill(t *testing.T) {
	b := newBrokers(t, 3)
	b.m[3].Lead(b.now, groupID(1), 2, []kafkaproto.NodeID{1, 2, 3})
	b.run(100 * ms)
	b.took(1)
	b.off[3] = true
	b.m[1].Refused(b.now, 3)
	if !b.m[1].Up(3) {
		t.Fatal("a refusal beside a connection counted")
	}
	b.m[1].Disconnected(b.now, 3)
	if !b.m[1].Up(3) {
		t.Fatal("a lost connection alone counted")
	}
	b.m[1].Refused(b.now, 3)
	o := b.took(1)
	if len(o.Peers) != 1 || o.Peers[0] != (PeerChange{Node: 3, Incarnation: 1, Reason: Refused}) {
		t.Fatalf("after the refusal: %+v", o.Peers)
	}
	b.wantLeader(1, groupID(1), 2, 3, false)
	b.run(200 * ms)
	if o := b.took(1); len(o.Campaigns) != 1 || o.Campaigns[0] != (Campaign{groupID(1), 2}) {
		t.Fatalf("campaigns %+v", o.Campaigns)
	}
}

// TestRestart brings a broker back at once as another incarnation: what it led is not live before it
// leads anew, and what was sent by the old one does not count.
func TestRestart(t *testing.T) {
	b := newBrokers(t, 3)
	for i := range 3 {
		b.m[3].Lead(b.now, groupID(i), 2, []kafkaproto.NodeID{3})
	}
	b.m[3].Advance(b.now.Add(flushDelay))
	late := b.m[3].Take().Send // of the old incarnation; broker 1 gets them at last
	b.m[3].Resign(b.now, groupID(2), 2)
	b.run(100 * ms)
	if b.m[1].Counters().Gaps == 0 {
		t.Fatal("no gap, though frames are missing")
	}
	b.run(200 * ms) // a digest was asked for
	b.wantLeader(1, groupID(0), 2, 3, true)
	b.took(1)

	b.m[3] = New(config(3, 2), b.now)
	b.m[3].SetPeers(b.now, b.ids)
	if b.m[3].Groups() != 0 || b.m[3].Admitted() {
		t.Fatal("the new incarnation knows something")
	}
	for _, id := range b.ids[:2] {
		b.m[id].Connected(b.now, 3, 2)
		b.m[3].Connected(b.now, id, 1)
	}
	b.wantLeader(1, groupID(0), 2, 3, false)
	for _, f := range late {
		if f.To == 1 {
			if err := b.m[1].Receive(b.now, 3, f.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.wantLeader(1, groupID(0), 2, 3, false)
	if b.m[1].Counters().Stray == 0 {
		t.Error("old frames were not counted")
	}
	o := b.took(1)
	if len(o.Peers) != 2 || o.Peers[0].Reason != Restarted || !o.Peers[1].Up || o.Peers[1].Incarnation != 2 {
		t.Fatalf("peers %+v", o.Peers)
	}
	b.m[3].Lead(b.now, groupID(1), 2, []kafkaproto.NodeID{3}) // a lone voter keeps its term
	b.run(100 * ms)
	b.wantLeader(1, groupID(0), 2, 3, false)
	b.wantLeader(1, groupID(1), 2, 3, true)
}

// TestLateTicker lets this broker stand still: nobody is declared dead for it, however long.
func TestLateTicker(t *testing.T) {
	for _, pause := range []time.Duration{700 * ms, 1500 * ms, 15 * time.Second, time.Minute} {
		b := newBrokers(t, 3)
		b.took(1)
		b.off[1] = true
		b.run(pause)
		b.off[1] = false
		b.m[1].Advance(b.now) // before a frame was read
		if o := b.took(1); len(o.Peers) > 0 || o.Exit || o.Disk != DiskSame {
			t.Errorf("after %v: %+v", pause, o)
		}
		b.run(2 * time.Second)
		if o := b.took(1); len(o.Peers) > 0 {
			t.Errorf("later after %v: %+v", pause, o.Peers)
		}
		if b.m[1].Counters().LateRounds != 1 {
			t.Errorf("%d late rounds", b.m[1].Counters().LateRounds)
		}
	}
}

// TestLateRoundJudgesNobody: in the round in which it was late, a broker lets even a peer live whose time
// was up without that.
func TestLateRoundJudgesNobody(t *testing.T) {
	m := New(config(1, 1), start)
	m.SetPeers(start, []kafkaproto.NodeID{1, 2})
	m.Connected(start, 2, 1)
	receive(t, m, start, 2, newWriter(kindBeat, 1, 0).beat(0, 0, 0))
	now := start
	for ; now.Before(start.Add(1050 * ms)); now = now.Add(100 * ms) {
		m.Advance(now)
	}
	now = now.Add(600 * ms)
	m.Advance(now)
	if !m.Up(2) {
		t.Error("declared dead in a late round")
	}
	m.Advance(now.Add(100 * ms))
	if m.Up(2) {
		t.Error("not declared dead in the round after")
	}
}

// TestStarved gives a broker the processor each 650 ms only: it still finds out who is dead.
func TestStarved(t *testing.T) {
	m := New(config(1, 1), start)
	m.SetPeers(start, []kafkaproto.NodeID{1, 2})
	m.Connected(start, 2, 1)
	if err := m.Receive(start, 2, newWriter(kindBeat, 1, 0).beat(0, 0, 0)); err != nil || !m.Up(2) {
		t.Fatal(err, m.Up(2))
	}
	now := start
	for range 30 {
		now = now.Add(650 * ms)
		m.Advance(now)
	}
	if m.Up(2) {
		t.Error("up after 30 rounds without a frame")
	}
}

// TestDisk stalls broker 3's disk: its peers take it for down after 5 s, it exits after 20 s; with the
// disk back in time it is up again.
func TestDisk(t *testing.T) {
	b := newBrokers(t, 3)
	b.m[3].Lead(b.now, groupID(1), 2, []kafkaproto.NodeID{1, 2, 3})
	b.run(100 * ms)
	b.took(1)
	stall := func(d time.Duration, stop func(Output, Output) bool) (time.Duration, Output, Output) {
		begin := b.now
		var one, three Output
		for b.now.Sub(begin) < d && !stop(one, three) {
			b.now = b.now.Add(100 * ms)
			for _, id := range b.ids {
				if id != 3 {
					b.m[id].DiskCycle(b.now)
				}
				b.m[id].Advance(b.now)
			}
			one, three = b.took(1), b.took(3)
		}
		return b.now.Sub(begin), one, three
	}
	d, one, _ := stall(8*time.Second, func(one, _ Output) bool { return len(one.Peers) > 0 })
	if d < 5*time.Second || d > 5300*ms || len(one.Peers) != 1 || one.Peers[0].Reason != DiskStall {
		t.Fatalf("after %v: %+v", d, one.Peers)
	}
	b.wantLeader(1, groupID(1), 2, 3, false)
	b.run(200 * ms)
	b.wantLeader(1, groupID(1), 2, 3, true)
	b.took(1)
	d, _, three := stall(30*time.Second, func(_, three Output) bool { return three.Exit })
	if d < 20*time.Second || d > 20300*ms || !three.Exit {
		t.Fatalf("after %v: exit %t", d, three.Exit)
	}
}

func TestOwnDiskEdges(t *testing.T) {
	m := New(config(1, 1), start)
	m.SetPeers(start, nil)
	if o := m.Take(); !o.Admitted || o.Quorum != QuorumBack {
		t.Fatalf("alone: %+v", o)
	}
	now, stalledAt := start, time.Duration(0)
	for range 60 {
		now = now.Add(100 * ms)
		m.Advance(now)
		if m.Take().Disk == DiskStalled {
			stalledAt = now.Sub(start)
		}
	}
	if stalledAt != 5100*ms {
		t.Errorf("stalled after %v", stalledAt)
	}
	m.DiskCycle(now)
	if m.Take().Disk != DiskBack {
		t.Error("not back with the disk")
	}
}

// TestAdmission waits for a whole digest of each peer that is there, and no longer for those that are not.
func TestAdmission(t *testing.T) {
	m := New(config(1, 1), start)
	m.Advance(start)
	if m.Admitted() {
		t.Fatal("before the members are known")
	}
	m.SetPeers(start, []kafkaproto.NodeID{1, 2, 3})
	m.Connected(start, 2, 9)
	receive := func(body []byte) {
		if err := m.Receive(start, 2, body); err != nil {
			t.Fatal(err)
		}
	}
	receive(newWriter(kindBeat, 9, 0).beat(0, 0, 0))
	receive(newWriter(kindDigest, 9, 0).digest(1, 0, false, 0))
	m.Refused(start, 3)
	if m.Admitted() {
		t.Fatal("before the digest is whole")
	}
	receive(newWriter(kindDigest, 9, 0).digest(1, 1, true, 0))
	if !m.Admitted() || !m.Take().Admitted {
		t.Fatal("not after the digest")
	}
	m.SetPeers(start, []kafkaproto.NodeID{1, 2, 3, 4})
	m.Advance(start.Add(100 * ms))
	if !m.Admitted() || m.Take().Admitted {
		t.Fatal("taken back or said twice")
	}

	silent := New(config(1, 1), start)
	silent.SetPeers(start, []kafkaproto.NodeID{1, 2})
	for now := start; now.Before(start.Add(1300 * ms)); now = now.Add(100 * ms) {
		silent.Advance(now)
	}
	if !silent.Admitted() {
		t.Fatal("a peer that never was there is waited for")
	}
}

func TestQuorumAndRemoval(t *testing.T) {
	b := newBrokers(t, 5)
	b.took(1)
	for _, n := range []kafkaproto.NodeID{5, 4} {
		b.off[n] = true
		b.m[1].Disconnected(b.now, n)
		b.m[1].Refused(b.now, n)
		if o := b.took(1); o.Quorum != QuorumSame {
			t.Fatalf("without %d: %v", n, o.Quorum)
		}
	}
	b.m[1].Disconnected(b.now, 3)
	b.m[1].Refused(b.now, 3)
	if o := b.took(1); o.Quorum != QuorumLost {
		t.Fatalf("two of five: %v", o.Quorum)
	}
	b.m[1].SetPeers(b.now, []kafkaproto.NodeID{1, 2, 3}) // two were removed: two of three
	if o := b.took(1); o.Quorum != QuorumBack {
		t.Fatalf("two of three: %v", o.Quorum)
	}
	b.m[2].Lead(b.now, groupID(1), 1, nil)
	b.run(100 * ms)
	b.m[1].SetPeers(b.now, []kafkaproto.NodeID{1, 3})
	if o := b.took(1); len(o.Peers) != 1 || o.Peers[0].Reason != Removed || o.Quorum != QuorumLost {
		t.Fatalf("removed: %+v", o)
	}
	b.wantLeader(1, groupID(1), 1, 2, false)
	b.m[1].Connected(b.now, 2, 1)
	if b.m[1].Up(2) || b.m[1].Receive(b.now, 2, []byte("x")) != nil {
		t.Error("a broker that is no member counts")
	}
}

// TestDigestEvery10s counts the digests of an idle pair, and that one in several frames is understood.
func TestDigestEvery10s(t *testing.T) {
	b := newBrokers(t, 2)
	const groups = 10_000
	for i := range groups {
		b.m[1].Lead(b.now, groupID(i), 3, []kafkaproto.NodeID{1, 2})
	}
	b.run(100 * ms)
	digests, frames, beats := 0, 0, 0
	for range 600 {
		b.now = b.now.Add(100 * ms)
		for _, id := range b.ids {
			b.m[id].DiskCycle(b.now)
			b.m[id].Advance(b.now)
		}
		for _, f := range b.m[1].Take().Send {
			switch f.Body[1] {
			case kindBeat:
				beats++
			case kindDigest:
				frames++
				if f.Body[commonHeader+8] == flagLast {
					digests++
				}
			}
			if len(f.Body) > 64<<10 {
				t.Errorf("frame of %d bytes", len(f.Body))
			}
			if err := b.m[2].Receive(b.now, 1, f.Body); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range b.m[2].Take().Send {
			if err := b.m[1].Receive(b.now, 2, f.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if digests < 5 || digests > 6 || beats != 600 || frames < 2*digests {
		t.Errorf("in a minute %d digests in %d frames, %d beats", digests, frames, beats)
	}
	if c := b.m[2].Counters(); c != (Counters{}) || b.m[2].Groups() != groups {
		t.Errorf("%+v, %d groups", c, b.m[2].Groups())
	}
}

// TestBurst tells more changes at once than a frame holds, and drops one frame: a digest repairs it.
func TestBurst(t *testing.T) {
	for _, drop := range []int{-1, 0, 1, 2} {
		b := newBrokers(t, 2)
		for i := range 10_000 {
			b.m[1].Lead(b.now, groupID(i*7919%10_000), 3, []kafkaproto.NodeID{1, 2})
		}
		b.m[1].Resign(b.now, groupID(0), 3)
		b.now = b.now.Add(flushDelay)
		b.m[1].Advance(b.now)
		frames := b.m[1].Take().Send
		if len(frames) < 3 {
			t.Fatalf("%d frames", len(frames))
		}
		for i, f := range frames {
			from, to := binary.BigEndian.Uint64(f.Body[commonHeader+5:]), binary.BigEndian.Uint64(f.Body[commonHeader+13:])
			if i > 0 && from != binary.BigEndian.Uint64(frames[i-1].Body[commonHeader+13:]) || from > to {
				t.Errorf("frame %d from %d to %d does not join", i, from, to)
			}
			if i == drop {
				continue
			}
			if err := b.m[2].Receive(b.now, 1, f.Body); err != nil {
				t.Fatal(err)
			}
		}
		b.run(200 * ms)
		for i := 1; i < 10_000; i++ {
			b.wantLeader(2, groupID(i), 3, 1, true)
		}
		if l, _ := b.m[2].Leader(groupID(0)); l.Live {
			t.Error("a resigned leader is live")
		}
		if gaps := b.m[2].Counters().Gaps; (gaps > 0) != (drop >= 0) {
			t.Errorf("frame %d dropped: %d gaps", drop, gaps)
		}
	}
}

func TestDropTopic(t *testing.T) {
	b := newBrokers(t, 2)
	b.m[1].Lead(b.now, groupID(1), 3, nil)
	b.m[1].Lead(b.now, groupID(2), 3, nil)
	b.m[2].Lead(b.now, groupID(3), 3, nil)
	b.run(100 * ms)
	b.m[2].DropTopic(b.now, groupID(1).Topic)
	if _, ok := b.m[2].Leader(groupID(1)); ok || b.m[2].Groups() != 0 {
		t.Fatal("still known")
	}
	b.run(15 * time.Second) // broker 1 has not heard of it and tells its digest
	if b.m[2].Groups() != 0 || b.m[2].Lead(b.now, groupID(1), 4, nil) {
		t.Error("came back")
	}
	b.wantLeader(1, groupID(3), 3, 2, false) // no longer in broker 2's digest
	b.m[1].DropTopic(b.now, groupID(1).Topic)
	b.run(11 * time.Minute)
	if n := len(b.m[2].tombs) + len(b.m[1].tombs) + len(b.m[1].buried) + b.m[2].Groups(); n != 0 {
		t.Errorf("%d things are kept for good", n)
	}
}
