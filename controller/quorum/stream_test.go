package quorum

import (
	"bytes"
	"testing"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

func sampleImage(t testing.TB) *meta.Image {
	w := newWorld(t)
	w.logged = nil
	c := w.open()
	create(t, c, "a", "b")
	img := c.Image()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestImageStream: an image comes as it went; any damaged byte and any end before the last is found out.
func TestImageStream(t *testing.T) {
	img := sampleImage(t)
	b, err := encodeImage(img, 3, testMs)
	if err != nil {
		t.Fatal(err)
	}
	got, id, err := readImage(bytes.NewReader(b))
	if err != nil || got.Version() != img.Version() || got.TopicCount() != 2 ||
		id != (snapshotID{kafkaproto.Offset(img.Version()), 3}) {
		t.Fatalf("%+v, %v", id, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x10
		if _, _, err := readImage(bytes.NewReader(bad)); err == nil {
			t.Errorf("byte %d of %d may be anything", i, len(b))
		}
		if _, _, err := readImage(bytes.NewReader(b[:i])); err == nil {
			t.Errorf("%d of %d bytes do", i, len(b))
		}
	}
	if _, _, err := readImage(bytes.NewReader(append(b, 0))); err == nil {
		t.Error("bytes behind the image")
	}
	if least, err := decodeAsk(encodeAsk(77)); err != nil || least != 77 {
		t.Error(least, err)
	}
	for _, bad := range [][]byte{nil, {1}, {2, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 9)} {
		if _, err := decodeAsk(bad); err == nil {
			t.Errorf("%v is a request", bad)
		}
	}
}

const testMs = 1_700_000_000_000

func FuzzImageStream(f *testing.F) {
	b, err := encodeImage(sampleImage(f), 3, testMs)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		img, id, err := readImage(bytes.NewReader(b))
		if err == nil && img.Version() != int64(id.offset) {
			t.Errorf("version %d as %d", img.Version(), id.offset)
		}
	})
}
