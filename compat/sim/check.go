package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/engine"
)

// checker holds what must be so against what is.
type checker struct {
	w       *World
	leaders map[leaderKey]kafkaproto.NodeID
	// truth is what was seen below a high watermark, on any broker, at any time.
	truth map[kafkaproto.PartitionID]map[kafkaproto.Offset]seen
	told  map[kafkaproto.PartitionID]map[kafkaproto.Offset]string
	high  map[kafkaproto.PartitionID]kafkaproto.Offset
}

type leaderKey struct {
	id    kafkaproto.PartitionID
	epoch kafkaproto.LeaderEpoch
}

type seen struct {
	value string
	epoch kafkaproto.LeaderEpoch
	crc   uint32 // of the batch
}

func (c *checker) init(w *World) {
	c.w = w
	c.leaders = map[leaderKey]kafkaproto.NodeID{}
	c.truth = map[kafkaproto.PartitionID]map[kafkaproto.Offset]seen{}
	c.told = map[kafkaproto.PartitionID]map[kafkaproto.Offset]string{}
	c.high = map[kafkaproto.PartitionID]kafkaproto.Offset{}
}

func (c *checker) led(node kafkaproto.NodeID, id kafkaproto.PartitionID, epoch kafkaproto.LeaderEpoch) {
	k := leaderKey{id, epoch}
	if other, ok := c.leaders[k]; ok {
		if other != node {
			c.w.fail("one-leader", "%d and %d lead %s in epoch %d", other, node, id, epoch)
		}
		return
	}
	c.leaders[k] = node
	c.w.Stats.Failovers++
	c.w.note("%d leads %s in epoch %d", node, id, epoch)
}

func (c *checker) acked(p *Part, at kafkaproto.Offset, value string) {
	m := c.told[p.id]
	if m == nil {
		m = map[kafkaproto.Offset]string{}
		c.told[p.id] = m
	}
	if old, ok := m[at]; ok && old != value {
		c.w.fail("acknowledged", "offset %d of %s is told to be %q and %q", at, p.tp, old, value)
	}
	m[at] = value
	if s, ok := c.truth[p.id][at]; ok && s.value != value {
		c.w.fail("acknowledged", "offset %d of %s is told to be %q and is %q", at, p.tp, value, s.value)
	}
}

// look compares what every broker shows with what was seen before.
func (c *checker) look() {
	for _, b := range c.w.brokers {
		if !b.up {
			continue
		}
		for _, p := range c.w.parts {
			ep := b.engine.ByID(p.id)
			if ep == nil || ep.Offline() != nil {
				continue
			}
			hw, was := ep.HighWatermark(), b.shown[p.id]
			if hw < was {
				c.w.fail("watermark", "%s on %d goes back from %d to %d", p.tp, b.node, was, hw)
			}
			if hw == was {
				continue
			}
			c.read(b, p, max(was, ep.LogStart()), hw)
			b.shown[p.id] = hw
		}
	}
}

// read holds [from, to) on a broker against the truth.
func (c *checker) read(b *Broker, p *Part, from, to kafkaproto.Offset) {
	truth := c.truth[p.id]
	if truth == nil {
		truth = map[kafkaproto.Offset]seen{}
		c.truth[p.id] = truth
	}
	l := b.engine.ByID(p.id).Log()
	next := kafkaproto.Offset(-1) // offsets are dense: nothing is compacted
	for off := from; off < to; {
		r, err := l.Read(off, 1<<20, to, true)
		if err != nil {
			if b.crashed != nil {
				return
			}
			c.w.fail("committed", "read %s at %d on %d: %v", p.tp, off, b.node, err)
		}
		buf := make([]byte, r.Len)
		_, err = r.File.ReadAt(buf, r.Pos)
		r.Release()
		if err != nil && b.crashed != nil {
			return
		}
		_, err = batch.Scan(buf, func(_ int, bb batch.Batch) (bool, error) {
			if err := bb.VerifyCRC(); err != nil {
				return false, err
			}
			return true, bb.Each(1<<20, func(rec *batch.Record) (bool, error) {
				got := seen{string(rec.Value), bb.LeaderEpoch(), bb.CRC()}
				if next >= 0 && rec.Offset != next {
					return false, fmt.Errorf("offset %d follows %d", rec.Offset, next-1)
				}
				next = rec.Offset + 1
				if old, ok := truth[rec.Offset]; ok && old != got {
					return false, fmt.Errorf("offset %d is %v, and was %v", rec.Offset, got, old)
				}
				truth[rec.Offset] = got
				if told, ok := c.told[p.id][rec.Offset]; ok && told != got.value {
					return false, fmt.Errorf("offset %d is %q, its producer was told %q", rec.Offset, got.value, told)
				}
				return true, nil
			})
		})
		if err != nil {
			c.w.fail("committed", "%s on %d: %v", p.tp, b.node, err)
		}
		if r.Next <= off {
			c.w.fail("committed", "%s on %d does not go on at %d", p.tp, b.node, off)
		}
		off = r.Next
	}
	c.high[p.id] = max(c.high[p.id], to)
}

// accepted is asked when an append was taken that all replicas in sync are to have: there must be as many
// as min.insync.replicas says, capped at the number of voters.
func (c *checker) accepted(b *Broker, ep *engine.Partition, p *Part) {
	lead := ep.Leadership()
	voters, _ := b.engine.Voters(p.id)
	if ep.Alone() || !lead.Leading {
		return
	}
	if need := min(int(p.minInSync), len(voters)); len(lead.InSync) < need {
		c.w.fail("in-sync", "%s on %d takes a write with %v in sync, of %v, min.insync.replicas is %d", p.tp, b.node, lead.InSync,
			voters, p.minInSync)
	}
}

// bytes is asked when all is healed: the replicas hold the same bytes.
func (c *checker) bytes() {
	for _, p := range c.w.parts {
		var from kafkaproto.Offset
		for _, r := range p.replicas {
			from = max(from, c.w.broker(r.Node).engine.ByID(p.id).LogStart())
		}
		var first []byte
		for i, r := range p.replicas {
			ep := c.w.broker(r.Node).engine.ByID(p.id)
			got, err := content(ep.Log(), from, ep.HighWatermark())
			if err != nil {
				c.w.fail("committed", "%s on %d: %v", p.tp, r.Node, err)
			}
			if i == 0 {
				first = got
			} else if !slices.Equal(first, got) {
				c.w.fail("committed", "%s: %d and %d bytes from offset %d on differ between %d and %d", p.tp, len(first), len(got),
					from, p.replicas[0].Node, r.Node)
			}
		}
	}
}

// content reads the batches from one offset to another.
func content(l *store.Log, from, to kafkaproto.Offset) ([]byte, error) {
	var all []byte
	for off := from; off < to; {
		r, err := l.Read(off, 1<<20, to, true)
		if err != nil {
			return nil, err
		}
		at := len(all)
		all = append(all, make([]byte, r.Len)...)
		_, err = r.File.ReadAt(all[at:], r.Pos)
		r.Release()
		if err != nil || r.Next <= off {
			return nil, fmt.Errorf("read at %d, next %d: %w", off, r.Next, err)
		}
		off = r.Next
	}
	return all, nil
}

// final is asked when all is healed: everything acknowledged was seen, once and in order.
func (c *checker) final() {
	for _, p := range c.w.parts {
		truth := c.truth[p.id]
		for off, v := range c.told[p.id] {
			if s, ok := truth[off]; !ok || s.value != v {
				c.w.fail("acknowledged", "offset %d of %s was acknowledged as %q and is %q", off, p.tp, v, s.value)
			}
		}
		last := -1
		for off := kafkaproto.Offset(0); off < c.high[p.id]; off++ {
			s, ok := truth[off]
			if !ok {
				continue // nobody looked before it was deleted
			}
			n, err := strconv.Atoi(s.value[strings.IndexByte(s.value, ':')+1:])
			if err != nil || n <= last {
				c.w.fail("acknowledged", "%s: sequence %d at offset %d, after %d", p.tp, n, off, last)
			}
			last = n
		}
	}
}
