package producer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Kafka's .snapshot, version 1 (ProducerStateManager), big-endian:
//
//	0         2     6         10
//	| version | crc | entries | entry* |
//	| i16     | u32 | i32     |
//
//	an entry, 46 bytes:
//	| producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 |
//	| timestamp i64 | coordinator epoch i32 | current txn first offset i64 |
//
// The CRC (CRC32C) covers everything from byte 6 on. -1 stands for: no sequence, no offset, no
// coordinator, no transaction.
const (
	kafkaVersion    = 1
	kafkaHead       = 10
	kafkaCRCFrom    = 6
	kafkaEntryBytes = 46
)

// WriteKafkaSnapshot gives Kafka's .snapshot file, version 1: the newest batch of each producer,
// pending ones included, as Kafka counts them too.
func (s *State) WriteKafkaSnapshot() []byte {
	b := make([]byte, 0, kafkaHead+len(s.producers)*kafkaEntryBytes)
	b = be.AppendUint16(b, kafkaVersion)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint32(b, uint32(len(s.producers)))
	for _, id := range s.ids() {
		e := s.producers[id]
		r, ok := e.last()
		if !ok {
			r = retained{lastSeq: -1, lastOffset: -1}
		}
		b = be.AppendUint64(b, uint64(id))
		b = be.AppendUint16(b, uint16(e.epoch))
		b = be.AppendUint32(b, uint32(r.lastSeq))
		b = be.AppendUint64(b, uint64(r.lastOffset))
		b = be.AppendUint32(b, uint32(r.delta))
		b = be.AppendUint64(b, uint64(e.timestamp))
		b = be.AppendUint32(b, uint32(e.coordEp))
		b = be.AppendUint64(b, uint64(e.txnFirst))
	}
	be.PutUint32(b[2:], checksum(b[kafkaCRCFrom:]))
	return b
}

// ReadKafkaSnapshot reads Kafka's .snapshot file, taken at log end offset end (its name).
// Everything in it counts as committed. A producer's timestamp stands for when it was last active.
func ReadKafkaSnapshot(b []byte, end kafkaproto.Offset, o Options) (*State, error) {
	if len(b) < kafkaHead || end < 0 {
		return nil, kafkaproto.Corruptf("producer snapshot of %d bytes at %d", len(b), end)
	}
	if v := int16(be.Uint16(b)); v > kafkaVersion {
		return nil, fmt.Errorf("producer snapshot has format version %d, this release reads %d: %w",
			v, kafkaVersion, ErrNewerFormat)
	} else if v != kafkaVersion {
		return nil, kafkaproto.Corruptf("producer snapshot of format version %d", v)
	}
	if checksum(b[kafkaCRCFrom:]) != be.Uint32(b[2:]) {
		return nil, kafkaproto.Corruptf("producer snapshot of %d bytes fails its checksum", len(b))
	}
	d := &decoder{b: b[6:]}
	if n := int64(d.i32()); n*kafkaEntryBytes != int64(len(d.b)) {
		return nil, kafkaproto.Corruptf("producer snapshot of %d entries in %d bytes", n, len(d.b))
	}
	s := New(o)
	s.committed, s.end = end, end
	for len(d.b) > 0 {
		if err := s.loadKafkaEntry(d); err != nil {
			return nil, err
		}
	}
	if err := s.openLoaded(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *State) loadKafkaEntry(d *decoder) error {
	id := kafkaproto.ProducerID(d.i64())
	v := view{epoch: kafkaproto.ProducerEpoch(d.i16())}
	r := retained{lastSeq: d.i32(), lastOffset: d.offset(), delta: d.i32()}
	v.timestamp, v.coordEp, v.txnFirst = d.i64(), d.i32(), max(d.offset(), -1)
	r.timestamp = v.timestamp
	_, twice := s.producers[id]
	if twice || id < 0 || v.txnFirst >= s.end || r.lastOffset >= 0 && !r.plausible(0, s.end) {
		return kafkaproto.Corruptf("producer snapshot at %d: producer %d, %+v, transaction from %d",
			s.end, id, r, v.txnFirst)
	}
	if r.lastOffset >= 0 {
		v.push(r)
	}
	s.producers[id] = &entry{view: v, active: v.timestamp}
	return nil
}

func sortOpen(open []OpenTxn) {
	slices.SortFunc(open, func(a, b OpenTxn) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
}
