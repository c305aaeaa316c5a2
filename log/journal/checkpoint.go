package journal

import (
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// A checkpoint is the state as frames at the start of a file:
//
//	checkpoint    groups u32
//	opened|clean  when a boot id is known
//	group         (kind u8 | length u32 | body)*, the bodies being those of ordinary records;
//	              a group with much to say takes several frames
//	checkpoint-end  groups u32
//
// The end is written by a call of its own, after the rest was taken: a file without it holds no
// state, and the one before it does.

// groupPart is how much of one group goes into one frame, about.
const groupPart = 64 << 10

// appendCheckpoint adds the frames of a checkpoint except its end, unsealed.
func (s *State) appendCheckpoint(b []byte) []byte {
	b = slices.Grow(b, 256*(len(s.Groups)+1))
	b = appendFrame(b, kindBegin, Group{}, s.appendCount)
	if s.BootID != "" || s.Clean {
		var boot Body = Opened{BootID: s.BootID}
		if s.Clean {
			boot = Clean{BootID: s.BootID}
		}
		b = appendFrame(b, boot.kind(), Group{}, boot.appendTo)
	}
	for _, id := range s.sorted() {
		b = s.Groups[id].appendFrames(b, id)
	}
	return b
}

func (s *State) appendCheckpointEnd(b []byte) []byte {
	return appendFrame(b, kindEnd, Group{}, s.appendCount)
}

func (s *State) appendCount(b []byte) []byte { return be.AppendUint32(b, uint32(len(s.Groups))) }

// appendFrames adds the group's frames: one at least, as an empty group is a group too.
func (g *GroupState) appendFrames(b []byte, id Group) []byte {
	at := len(b)
	begin := func() {
		at = len(b)
		b = appendFrame(b, kindGroup, id, func(b []byte) []byte { return b })
	}
	begin()
	g.bodies(func(body Body) {
		if len(b)-at > groupPart {
			begin()
		}
		b = append(b, byte(body.kind()), 0, 0, 0, 0)
		from := len(b)
		b = body.appendTo(b)
		be.PutUint32(b[from-4:], uint32(len(b)-from))
		be.PutUint32(b[at:], uint32(len(b)-at-frameHead))
	})
	return b
}

// applyGroupFrame is the inverse of appendFrames.
func (s *State) applyGroupFrame(id Group, b []byte) error {
	g := s.Groups[id]
	if g == nil {
		g = &GroupState{}
		s.Groups[id] = g
	}
	d := &decoder{b: b}
	for len(d.b) > 0 && !d.bad {
		k := Kind(d.u8())
		raw := d.take(d.u32())
		if d.bad {
			break
		}
		body, err := decodeBody(k, raw)
		if err != nil {
			return err
		}
		if err := g.Apply(body); err != nil {
			return err
		}
	}
	if d.bad {
		return kafkaproto.Corruptf("group %v in a checkpoint ends within a record", id)
	}
	return nil
}
