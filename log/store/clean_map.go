package store

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluicelog/sluice/kafkaproto"
)

// offsetMap maps keys to their newest offsets in bounded memory: 16 bytes of the key's hash and 8
// of the offset, as Kafka's SkimpyOffsetMap. The hash is collision-resistant, so that nobody can
// make keys whose records delete each other's.
type offsetMap struct {
	slots  []offsetSlot
	n, max int
	latest kafkaproto.Offset // of the last record that was put, or looked at
}

type offsetSlot struct {
	hash   [16]byte
	offset int64 // plus one; 0: empty
}

const (
	slotBytes = 24
	mapLoad   = 0.75
)

// newOffsetMap makes a map of at most memory bytes that need not hold more than want keys.
func newOffsetMap(memory int, want int64) *offsetMap {
	n := max(int(min(int64(memory/slotBytes), int64(float64(want)/mapLoad)+16)), 16)
	return &offsetMap{slots: make([]offsetSlot, n), max: int(float64(n) * mapLoad), latest: -1}
}

// find gives the slot of the key, or the empty one where it belongs.
func (m *offsetMap) find(key []byte) (*offsetSlot, [16]byte) {
	sum := sha256.Sum256(key)
	hash := [16]byte(sum[:16])
	n := uint64(len(m.slots))
	for i := binary.LittleEndian.Uint64(sum[16:]) % n; ; i = (i + 1) % n {
		if s := &m.slots[i]; s.offset == 0 || s.hash == hash {
			return s, hash
		}
	}
}

// put notes a key's newer offset; false: the map is full.
func (m *offsetMap) put(key []byte, off kafkaproto.Offset) bool {
	s, hash := m.find(key)
	if s.offset == 0 {
		if m.n == m.max {
			return false
		}
		m.n++
		s.hash = hash
	}
	s.offset = int64(off) + 1
	return true
}

// get is the newest offset of the key, or -1.
func (m *offsetMap) get(key []byte) kafkaproto.Offset {
	s, _ := m.find(key)
	return kafkaproto.Offset(s.offset - 1)
}
