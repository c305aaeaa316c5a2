package journal

import (
	"bufio"
	"fmt"
	"io"
	"path"

	"github.com/sluicelog/sluice/log/vfs"
)

// Dump prints every record of every file in dir, in order, with its position, and goes on behind
// damage where it can. It changes nothing; the error is about reading, not about what was read.
func Dump(fsys vfs.FS, dir string, w io.Writer) error {
	seqs, err := listFiles(fsys, dir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, seq := range seqs {
		if err := dumpFile(fsys, dir, seq, out); err != nil {
			return err
		}
	}
	return out.Flush()
}

func dumpFile(fsys vfs.FS, dir string, seq uint64, out *bufio.Writer) error {
	f, err := vfs.Open(fsys, path.Join(dir, walName(seq)))
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading only
	size, err := f.Size()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "file %s, %d bytes\n", walName(seq), size)
	fr := newFrameReader(f, seq, size)
	head, err := fr.peek(0, headerBytes)
	if err != nil {
		return err
	}
	if err := checkHeader(head, seq); err != nil {
		fmt.Fprintf(out, "%10d  %v\n", 0, err)
	}
	for {
		fm, st, err := fr.next()
		switch {
		case err != nil:
			return err
		case st == stopEnd:
			fmt.Fprintf(out, "%10d  end, %d zeros\n", fr.pos, size-fr.pos)
			return nil
		case st == stopBad:
			next, ok := fr.resync(fr.pos)
			if !ok {
				fmt.Fprintf(out, "%10d  no record from here to the end of the file, %d bytes\n", fr.pos,
					size-fr.pos)
				return nil
			}
			fmt.Fprintf(out, "%10d  %d bytes that are no record\n", fr.pos, next-fr.pos)
			fr.pos = next
			continue
		}
		dumpFrame(out, fm)
	}
}

func dumpFrame(out *bufio.Writer, f frame) {
	fmt.Fprintf(out, "%10d  %v", f.pos, f.kind)
	switch f.kind {
	case kindMark:
		d := decoder{b: f.body}
		fmt.Fprintf(out, " synced up to byte %d\n", d.u64())
	case kindBegin, kindEnd:
		d := decoder{b: f.body}
		fmt.Fprintf(out, " of %d groups\n", d.u32())
	case kindGroup:
		fmt.Fprintf(out, " %v\n", f.group)
		d := decoder{b: f.body}
		for len(d.b) > 0 && !d.bad {
			k := Kind(d.u8())
			raw := d.take(d.u32())
			fmt.Fprintf(out, "%10s  - %v", "", k)
			dumpBody(out, k, raw)
		}
	case KindOpened, KindClean:
		dumpBody(out, f.kind, f.body)
	default:
		fmt.Fprintf(out, " %v", f.group)
		dumpBody(out, f.kind, f.body)
	}
}

func dumpBody(out *bufio.Writer, k Kind, raw []byte) {
	body, err := decodeBody(k, raw)
	if err != nil {
		fmt.Fprintf(out, " %v\n", err)
		return
	}
	if s, ok := body.(Side); ok && s.Kind == SideLogStart {
		if start, err := ParseLogStart(s.Data); err == nil {
			fmt.Fprintf(out, " {Index:%d Term:%d Kind:%v AtOffset:%d LogStart:%d}\n", s.Index, s.Term,
				s.Kind, s.AtOffset, start)
			return
		}
	}
	fmt.Fprintf(out, " %+v\n", body)
}
