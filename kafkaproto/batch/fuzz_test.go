package batch

import (
	"errors"
	"io"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// seeds are valid batches of every codec and kind.
func seeds(f *testing.F, add func(b []byte)) {
	for _, codec := range allCodecs {
		add(valid(codec))
		b := NewBuilder(BuilderOptions{Codec: codec, Producer: &Producer{ID: 1}})
		b.Add(Record{Timestamp: 1500, Key: []byte("key"), Headers: []RecordHeader{{Key: "h"}}})
		one, err := b.Build()
		if err != nil {
			f.Fatal(err)
		}
		add(one)
	}
	add(Control(Commit, 1, 2, 3, 4))
	add(Batch(valid(None)).Emptied())
	add([]byte{})
}

func FuzzFirst(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := First(raw)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !kafkaproto.IsCorrupt(err) {
				t.Fatalf("error is neither end nor corruption: %v", err)
			}
			return
		}
		if b.Size() < HeaderSize || b.Size() > len(raw) || b.Header().Size() != b.Size() ||
			b.LastOffset() < b.BaseOffset() || b.NextOffset() <= b.LastOffset() || b.Count() < 0 {
			t.Fatalf("header is %+v", b.Header())
		}
		if h, err := PeekHeader(raw); err != nil || h != b.Header() {
			t.Fatalf("PeekHeader: %+v, %v", h, err)
		}
		n, err := Scan(raw, func(int, Batch) (bool, error) { return true, nil })
		if n < b.Size() || (err == nil) != (n == len(raw)) {
			t.Fatalf("Scan: %d of %d, %v", n, len(raw), err)
		}
		_ = b.VerifyCRC()
		_, _ = b.Marker()
		if e := b.Emptied(); e.VerifyCRC() != nil || e.LastOffset() != b.LastOffset() {
			t.Fatalf("emptied is %+v", e.Header())
		}
	})
}

func FuzzEach(f *testing.F) {
	seeds(f, func(b []byte) {
		if len(b) > HeaderSize {
			f.Add(b[HeaderSize:], byte(Batch(b).Codec()), Batch(b).Count())
		}
	})
	for _, bomb := range bombs(f) {
		if len(bomb.bytes) < 16<<10 {
			f.Add(bomb.bytes, byte(bomb.codec), int32(1))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, codec byte, count int32) {
		const limit = 1 << 20
		raw := append([]byte(Control(Abort, 0, 0, 0, 0)[:HeaderSize]), payload...)
		raw[atAttributes+1] = codec & codecMask
		Batch(raw).setLengthAndCount(len(raw), count)
		b, err := First(raw)
		if err != nil {
			return
		}
		got, bytes := int32(0), 0
		err = b.Each(limit, func(r *Record) (bool, error) {
			got++
			bytes += len(r.Key) + len(r.Value)
			for _, h := range r.Headers {
				bytes += len(h.Key) + len(h.Value)
			}
			return true, nil
		})
		if bytes > limit+len(payload) || got > b.Count() || err == nil && got != b.Count() {
			t.Fatalf("%d records of %d, %d bytes: %v", got, b.Count(), bytes, err)
		}
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("error is %v", err)
		}
		if b.Codec() == None {
			if _, ok := walk(payload, b.Count(), 0); ok != (err == nil) {
				t.Fatalf("walk says %v, Each says %v", ok, err)
			}
		}
	})
}

func FuzzAdmit(f *testing.F) {
	seeds(f, func(b []byte) {
		f.Add(b, false)
		f.Add(b, true)
	})
	f.Fuzz(func(t *testing.T, raw []byte, compacted bool) {
		raw = append([]byte(nil), raw...)
		admitIsSound(t, append([]byte(nil), raw...), compacted)
		// Nearly all changes end at the CRC; set it right to get behind it.
		if size, ok, err := (&Check{}).next(raw); ok && err == nil && size >= HeaderSize {
			Batch(raw[:size]).seal()
			admitIsSound(t, raw, compacted)
		}
	})
}
