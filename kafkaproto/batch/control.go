package batch

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/sluicelog/sluice/kafkaproto"
)

// ControlKind is the kind of a control record.
type ControlKind int16

// The transaction markers, by their number in the control record's key. Other numbers belong to
// raft and snapshots (KIP-595, KIP-630) and are none of ours.
const (
	Abort  ControlKind = 0
	Commit ControlKind = 1
)

// String names the kind as Kafka's dump tool does.
func (k ControlKind) String() string {
	switch k {
	case Abort:
		return "ABORT"
	case Commit:
		return "COMMIT"
	}
	return "CONTROL " + strconv.Itoa(int(k))
}

// Marker is a control batch's content.
type Marker struct {
	Kind             ControlKind
	CoordinatorEpoch int32 // of markers only
}

// markerVersion is the version of a control record's key and of a marker's value.
const markerVersion = 0

// Control builds the marker that ends a producer's transaction in one partition (KIP-98): one
// record, one offset. ts is in milliseconds.
//
//	key:   version int16 0 | kind int16
//	value: version int16 0 | coordinator epoch int32
func Control(kind ControlKind, coordinatorEpoch int32, pid kafkaproto.ProducerID,
	epoch kafkaproto.ProducerEpoch, ts int64) Batch {
	key := binary.BigEndian.AppendUint16(nil, markerVersion)
	key = binary.BigEndian.AppendUint16(key, uint16(kind))
	value := binary.BigEndian.AppendUint16(nil, markerVersion)
	value = binary.BigEndian.AppendUint32(value, uint32(coordinatorEpoch))

	b := NewBuilder(BuilderOptions{
		LeaderEpoch:   kafkaproto.NoEpoch,
		Producer:      &Producer{ID: pid, Epoch: epoch, BaseSequence: NoSequence},
		Transactional: true,
		Control:       true,
	})
	b.Add(Record{Timestamp: ts, Key: key, Value: value})
	out, err := b.Build()
	if err != nil {
		panic(fmt.Sprintf("build marker %v of producer %d: %v", kind, pid, err))
	}
	return out
}

// maxControl bounds the payload of a control batch in bytes.
const maxControl = 1 << 20

// Marker reads a control batch. A kind it does not know is no error; a batch that is not a control
// batch, or holds none or half a record, fails as Each does.
func (b Batch) Marker() (Marker, error) {
	if !b.IsControl() {
		return Marker{}, b.blame(fmt.Errorf("attributes %#x are not a control batch's",
			b.Attributes()))
	}
	var m Marker
	found := false
	err := b.Each(maxControl, func(r *Record) (bool, error) {
		if len(r.Key) < 4 {
			return false, b.blame(fmt.Errorf("control key of %d bytes", len(r.Key)))
		}
		found = true
		m.Kind = ControlKind(binary.BigEndian.Uint16(r.Key[2:]))
		if m.Kind != Abort && m.Kind != Commit {
			return false, nil
		}
		if len(r.Value) < 6 {
			return false, b.blame(fmt.Errorf("marker value of %d bytes", len(r.Value)))
		}
		m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
		return false, nil
	})
	if err == nil && !found {
		err = b.blame(fmt.Errorf("control batch without a record"))
	}
	return m, err
}
