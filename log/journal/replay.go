package journal

import (
	"errors"
	"fmt"

	"github.com/sluicelog/sluice/log/vfs"
)

// replayed is what one file told.
type replayed struct {
	seq     uint64
	state   *State
	whole   bool  // header and checkpoint are there to their end
	frames  int   // behind the checkpoint
	end     int64 // of the last good frame
	torn    int64 // bytes behind end that are no frame, up to the file's end; 0 at a clean end
	size    int64
	damaged error // marked corrupt: below a mark, or a good frame that makes no sense
}

// replayFile reads one file from the start. The error is an operating fault or ErrNewerFormat;
// damage is in the result.
func replayFile(f vfs.File, seq uint64) (*replayed, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", walName(seq), err)
	}
	r := &replayed{seq: seq, state: newState(), size: size}
	fr := newFrameReader(f, seq, size)
	head, err := fr.peek(0, headerBytes)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(head, seq); errors.Is(err, errNoHeader) {
		return r, r.stopAt(fr, 0, "no file header")
	} else if err != nil {
		return nil, err
	}
	var cp checkpointReader
	for {
		f, st, err := fr.next()
		switch {
		case err != nil:
			return nil, err
		case st == stopEnd:
			r.end, r.whole = fr.pos, cp.done
			return r, nil
		case st == stopBad:
			r.whole = cp.done
			return r, r.stopAt(fr, fr.pos, "bytes that are no record")
		}
		if err := r.apply(&cp, f); err != nil {
			r.end, r.whole = f.pos, cp.done
			r.damaged = damagef(seq, f.pos, "%v", err)
			return r, nil
		}
	}
}

// stopAt ends the replay at bytes that are no frame. Only a mark decides what that means (ruling
// 4): a later frame that says "synced" of this place makes it damage, otherwise it is the torn end
// of what was never synced.
func (r *replayed) stopAt(fr *frameReader, pos int64, what string) error {
	r.end, r.torn = pos, r.size-pos
	below, err := fr.markAbove(pos)
	if err != nil {
		return err
	}
	if below {
		r.damaged = damagef(r.seq, pos, "%s, below a mark that says synced", what)
	}
	return nil
}

// checkpointReader follows a file's checkpoint, which must come first and be whole.
type checkpointReader struct {
	begun, done bool
	groups      uint32
}

func (r *replayed) apply(cp *checkpointReader, f frame) error {
	switch {
	case !cp.begun && f.kind != kindBegin:
		return fmt.Errorf("%v record before the checkpoint", f.kind)
	case cp.begun && f.kind == kindBegin, cp.done && (f.kind == kindGroup || f.kind == kindEnd):
		return fmt.Errorf("%v record out of place", f.kind)
	case !cp.done && f.kind == kindMark:
		return fmt.Errorf("mark within the checkpoint")
	}
	switch f.kind {
	case kindBegin:
		if len(f.body) != 4 {
			return fmt.Errorf("checkpoint record of %d bytes", len(f.body))
		}
		cp.begun, cp.groups = true, be.Uint32(f.body)
		return nil
	case kindGroup:
		return r.state.applyGroupFrame(f.group, f.body)
	case kindEnd:
		if n := len(r.state.Groups); len(f.body) != 4 || be.Uint32(f.body) != cp.groups ||
			uint32(n) != cp.groups {
			return fmt.Errorf("checkpoint of %d groups ends with %d", cp.groups, n)
		}
		cp.done = true
		return nil
	case kindMark:
		if len(f.body) != 8 || be.Uint64(f.body) > uint64(f.pos) {
			return fmt.Errorf("mark of %d bytes that speaks of what comes after it", len(f.body))
		}
		return nil
	}
	if !cp.done && f.kind != KindOpened && f.kind != KindClean {
		return fmt.Errorf("%v record within the checkpoint", f.kind)
	}
	body, err := decodeBody(f.kind, f.body)
	if err != nil {
		return err
	}
	if cp.done {
		r.frames++
	}
	return r.state.Apply(Record{Group: f.group, Body: body})
}
