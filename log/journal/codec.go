package journal

import (
	"encoding/binary"
	"fmt"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Bounds of what a record may hold. A frame above maxFrame is damage, whatever its length says.
const (
	maxFrame     = 1 << 20
	maxSideBytes = 1 << 16
	maxBootID    = 255
)

var be = binary.BigEndian

// HardState body: term u64 | vote u64 | commit u64.
func (h HardState) appendTo(b []byte) []byte { return appendU64s(b, h.Term, h.Vote, h.Commit) }

// Side body: index u64 | term u64 | atOffset i64 | kind u8 | data, to the end.
func (s Side) appendTo(b []byte) []byte {
	b = appendU64s(b, s.Index, s.Term, uint64(s.AtOffset))
	return append(append(b, byte(s.Kind)), s.Data...)
}

// Trunc body: index u64 | old term u64.
func (t Trunc) appendTo(b []byte) []byte { return appendU64s(b, t.Index, t.OldTerm) }

// Reset body: last u64.
func (r Reset) appendTo(b []byte) []byte { return appendU64s(b, r.Last) }

// Conf body: index u64 | conf state.
func (c Conf) appendTo(b []byte) []byte { return c.State.appendTo(appendU64s(b, c.Index)) }

// Window body: first index u64 | term u64 | first offset i64 | log start i64.
func (w Window) appendTo(b []byte) []byte {
	return appendU64s(b, w.FirstIndex, w.Term, uint64(w.FirstOffset), uint64(w.LogStart))
}

// Snap body: index u64 | term u64 | next offset i64 | log start i64 | conf state.
func (s Snap) appendTo(b []byte) []byte {
	b = appendU64s(b, s.Index, s.Term, uint64(s.NextOffset), uint64(s.LogStart))
	return s.Conf.appendTo(b)
}

// CommitHint body: index u64.
func (c CommitHint) appendTo(b []byte) []byte { return appendU64s(b, c.Index) }

// Drop has no body.
func (Drop) appendTo(b []byte) []byte { return b }

// Synced body: offset i64 | index u64 | segment i64 | position i64.
func (s Synced) appendTo(b []byte) []byte {
	return appendU64s(b, uint64(s.Offset), s.Index, uint64(s.Segment), uint64(s.Position))
}

// SwapIntent body: id u64 | kind u8 | data length u32 | data | names to add | names to remove, each
// list as count u32 | (length u16 | name)*.
func (s SwapIntent) appendTo(b []byte) []byte {
	b = append(appendU64s(b, s.ID), byte(s.Kind))
	b = be.AppendUint32(b, uint32(len(s.Data)))
	b = append(b, s.Data...)
	for _, names := range [2][]string{s.Add, s.Remove} {
		b = be.AppendUint32(b, uint32(len(names)))
		for _, n := range names {
			b = append(be.AppendUint16(b, uint16(len(n))), n...)
		}
	}
	return b
}

// SwapDone body: id u64.
func (s SwapDone) appendTo(b []byte) []byte { return appendU64s(b, s.ID) }

// Opened body: the boot id, to the end.
func (o Opened) appendTo(b []byte) []byte { return append(b, o.BootID...) }

// Clean body: the boot id, to the end.
func (c Clean) appendTo(b []byte) []byte { return append(b, c.BootID...) }

// A conf state: auto leave u8 | voters | outgoing voters | learners | next learners, each list as
// count u32 | u64*.
func (c ConfState) appendTo(b []byte) []byte {
	leave := byte(0)
	if c.AutoLeave {
		leave = 1
	}
	b = append(b, leave)
	for _, ids := range [4][]uint64{c.Voters, c.VotersOutgoing, c.Learners, c.LearnersNext} {
		b = be.AppendUint32(b, uint32(len(ids)))
		b = appendU64s(b, ids...)
	}
	return b
}

func appendU64s(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = be.AppendUint64(b, v)
	}
	return b
}

// checkBody refuses what would not come back from disk as it went there.
func checkBody(b Body) error {
	switch v := b.(type) {
	case Side:
		if len(v.Data) > maxSideBytes {
			return fmt.Errorf("side entry with %d bytes of data, above %d", len(v.Data), maxSideBytes)
		}
	case Opened:
		if len(v.BootID) > maxBootID {
			return fmt.Errorf("boot id of %d bytes, above %d", len(v.BootID), maxBootID)
		}
	case Clean:
		if len(v.BootID) > maxBootID {
			return fmt.Errorf("boot id of %d bytes, above %d", len(v.BootID), maxBootID)
		}
	case SwapIntent:
		for _, n := range append(v.Add[:len(v.Add):len(v.Add)], v.Remove...) {
			if len(n) == 0 || len(n) > 255 {
				return fmt.Errorf("swap of a file name of %d bytes", len(n))
			}
		}
	}
	return nil
}

// decoder reads a body; the first failure sticks.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() int {
	if b := d.take(2); b != nil {
		return int(be.Uint16(b))
	}
	return 0
}

func (d *decoder) u32() int {
	if b := d.take(4); b != nil {
		return int(be.Uint32(b))
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return be.Uint64(b)
	}
	return 0
}

func (d *decoder) offset() kafkaproto.Offset { return kafkaproto.Offset(d.u64()) }

// rest copies what is left, as the bytes read belong to a buffer that is used again.
func (d *decoder) rest() []byte {
	if len(d.b) == 0 {
		return nil
	}
	return append([]byte(nil), d.take(len(d.b))...)
}

func (d *decoder) ids() []uint64 {
	n := d.u32()
	raw := d.take(8 * n)
	if n == 0 || raw == nil {
		return nil
	}
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = be.Uint64(raw[8*i:])
	}
	return ids
}

func (d *decoder) names() []string {
	n := d.u32()
	if n > len(d.b)/3 { // a name takes three bytes at least
		d.bad = true
	}
	if n == 0 || d.bad {
		return nil
	}
	names := make([]string, 0, n)
	for range n {
		name := d.take(d.u16())
		if len(name) == 0 || len(name) > 255 {
			d.bad = true
			return nil
		}
		names = append(names, string(name))
	}
	return names
}

func (d *decoder) confState() ConfState {
	leave := d.u8()
	if leave > 1 {
		d.bad = true
	}
	return ConfState{
		AutoLeave:      leave == 1,
		Voters:         d.ids(),
		VotersOutgoing: d.ids(),
		Learners:       d.ids(),
		LearnersNext:   d.ids(),
	}
}

// decodeBody reads the body of a record whose CRC was good: an error is corruption all the same.
// The body shares no memory with b.
func decodeBody(k Kind, b []byte) (Body, error) {
	d := &decoder{b: b}
	var out Body
	switch k {
	case KindHardState:
		out = HardState{Term: d.u64(), Vote: d.u64(), Commit: d.u64()}
	case KindSide:
		s := Side{Index: d.u64(), Term: d.u64(), AtOffset: d.offset(), Kind: SideKind(d.u8())}
		s.Data = d.rest()
		d.bad = d.bad || len(s.Data) > maxSideBytes
		out = s
	case KindTrunc:
		out = Trunc{Index: d.u64(), OldTerm: d.u64()}
	case KindReset:
		out = Reset{Last: d.u64()}
	case KindConf:
		out = Conf{Index: d.u64(), State: d.confState()}
	case KindWindow:
		out = Window{FirstIndex: d.u64(), Term: d.u64(), FirstOffset: d.offset(), LogStart: d.offset()}
	case KindSnap:
		out = Snap{Index: d.u64(), Term: d.u64(), NextOffset: d.offset(), LogStart: d.offset(),
			Conf: d.confState()}
	case KindCommitHint:
		out = CommitHint{Index: d.u64()}
	case KindDrop:
		out = Drop{}
	case KindSynced:
		out = Synced{Offset: d.offset(), Index: d.u64(), Segment: d.offset(), Position: int64(d.u64())}
	case KindSwapIntent:
		out = d.swapIntent()
	case KindSwapDone:
		out = SwapDone{ID: d.u64()}
	case KindOpened, KindClean:
		id := string(d.take(len(d.b)))
		d.bad = d.bad || len(id) > maxBootID
		if out = (Clean{BootID: id}); k == KindOpened {
			out = Opened{BootID: id}
		}
	default:
		return nil, kafkaproto.Corruptf("record of unknown kind %d", k)
	}
	if d.bad || len(d.b) != 0 {
		return nil, kafkaproto.Corruptf("%v record with a malformed body of %d bytes", k, len(b))
	}
	return out, nil
}

func (d *decoder) swapIntent() SwapIntent {
	s := SwapIntent{ID: d.u64(), Kind: SwapKind(d.u8())}
	if data := d.take(d.u32()); len(data) > 0 {
		s.Data = append([]byte(nil), data...)
	}
	s.Add, s.Remove = d.names(), d.names()
	return s
}

// String names the kind as Dump prints it.
func (k Kind) String() string {
	names := [...]string{
		KindHardState: "hardstate", KindSide: "side", KindTrunc: "trunc", KindReset: "reset",
		KindConf: "conf", KindWindow: "window", KindSnap: "snap", KindCommitHint: "commit-hint",
		KindDrop: "drop", KindSynced: "synced", KindSwapIntent: "swap-intent",
		KindSwapDone: "swap-done", KindOpened: "opened", KindClean: "clean",
		kindMark: "mark", kindBegin: "checkpoint", kindGroup: "group", kindEnd: "checkpoint-end",
	}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// String names the kind as Dump prints it.
func (k SideKind) String() string {
	switch k {
	case SideNoop:
		return "noop"
	case SideConf:
		return "conf"
	case SideLogStart:
		return "log-start"
	case SideConfV2:
		return "conf-v2"
	}
	return fmt.Sprintf("side(%d)", uint8(k))
}
