package server

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dataFile is a file of n patterned bytes.
func dataFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	data := pattern(n)
	name := filepath.Join(t.TempDir(), "00000000000000000000.log")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, data
}

// TestFileRanges: answers made of buffers and file ranges arrive byte for byte, on plain TCP (by
// sendfile and by copy), in memory and over TLS.
func TestFileRanges(t *testing.T) {
	f, data := dataFile(t, 1<<20)
	var next atomic.Pointer[Payload]
	serve := func(r *Request) { r.Reply(*next.Load()) }
	certs := newCerts(t)
	s := startServer(t, serve, Options{Listeners: []Listener{
		{Name: "plain", Protocol: Plaintext, Addr: "127.0.0.1:0"},
		{Name: "ssl", Protocol: SSL, Addr: "127.0.0.1:0", TLS: certs.server(t)},
	}})
	clients := map[string]*client{
		"tcp": dial(t, s), "pipe": pipe(t, s), "tls": dialTLS(t, s, certs.client()),
	}
	size := rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(sendfileMin-2, sendfileMin+2),
		rapid.IntRange(writePiece-6, writePiece+6), rapid.IntRange(0, 900_000))
	rapid.Check(t, func(rt *rapid.T) {
		var p Payload
		var want []byte
		for range rapid.IntRange(1, 6).Draw(rt, "chunks") {
			n := size.Draw(rt, "size")
			off := rapid.IntRange(0, len(data)-n).Draw(rt, "off")
			part := data[off : off+n]
			want = append(want, part...)
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				p.Chunks = append(p.Chunks, Chunk{Buf: part})
			case 1:
				p.Chunks = append(p.Chunks, Chunk{At: bytes.NewReader(data), Off: int64(off), Len: int64(n)})
			default:
				p.Chunks = append(p.Chunks, Chunk{File: f, Off: int64(off), Len: int64(n)})
			}
		}
		for name, c := range clients {
			q := p
			released := make(chan struct{})
			q.Release = func() { close(released) }
			next.Store(&q)
			c.send([]byte("fetch"))
			if got := c.recv(); !bytes.Equal(got, want) {
				rt.Fatalf("%s: answer of %d bytes differs from the %d sent", name, len(got), len(want))
			}
			<-released
		}
	})
	if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != 0 {
		t.Fatalf("the file's own position moved to %d (%v)", at, err)
	}
}

// TestSendfileSlowReader: a small socket buffer makes sendfile stop and go on many times.
func TestSendfileSlowReader(t *testing.T) {
	f, data := dataFile(t, 2<<20)
	s := startServer(t, func(r *Request) {
		r.Reply(Payload{Chunks: []Chunk{{Buf: []byte("head")}, {File: f, Len: int64(len(data))}}})
	}, Options{SendBuffer: 16 << 10})
	c := dial(t, s)
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	c.send([]byte("one"), []byte("two"))
	want := append([]byte("head"), data...)
	for range 2 {
		if got := c.recv(); !bytes.Equal(got, want) {
			t.Fatal("the answer differs")
		}
	}
}

// TestSendfileStuck: the write timeout holds in sendfile too.
func TestSendfileStuck(t *testing.T) {
	f, data := dataFile(t, 8<<20)
	var obs counts
	var released atomic.Bool
	s := startServer(t, func(r *Request) {
		r.Reply(Payload{
			Chunks:  []Chunk{{File: f, Len: int64(len(data))}},
			Release: func() { released.Store(true) },
		})
	}, Options{SendBuffer: 8 << 10, WriteTimeout: 50 * time.Millisecond, Observer: &obs})
	c := dial(t, s)
	c.send([]byte("and never read"))
	eventually(t, "answer released", released.Load)
	eventually(t, "connection closed", func() bool { return s.Conns() == 0 })
	if obs.why(RefusedStuck) != 1 {
		t.Fatalf("refused %v, want one stuck writer", obs.refused)
	}
}

// TestFileEndsEarly: a range that is not there ends the connection with one error line, and never
// sends other bytes in its place.
func TestFileEndsEarly(t *testing.T) {
	f, data := dataFile(t, 100_000)
	closed, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tc := range []struct {
		name string
		k    Chunk
		good int
	}{
		{"sendfile", Chunk{File: f, Off: 20_000, Len: 90_000}, 80_000},
		{"sendfile behind the end", Chunk{File: f, Off: 200_000, Len: 90_000}, 0},
		{"copy", Chunk{File: f, Off: 99_000, Len: 2000}, 0},
		{"closed, sendfile", Chunk{File: closed, Len: 90_000}, 0},
		{"closed, copy", Chunk{File: closed, Len: 100}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log lines
			s := startServer(t, func(r *Request) {
				r.Reply(Payload{Chunks: []Chunk{tc.k}})
			}, Options{Logger: log.logger()})
			c := dial(t, s)
			c.send([]byte("x"))
			got, _ := io.ReadAll(c)
			if len(got) > 4 && !bytes.Equal(got[4:], data[tc.k.Off:int(tc.k.Off)+len(got)-4]) {
				t.Fatal("bytes that are not the file's")
			}
			if len(got) > 4+tc.good {
				t.Fatalf("%d bytes sent, the file has %d", len(got)-4, tc.good)
			}
			eventually(t, "logged", func() bool { return len(log.all()) == 1 })
			if !strings.Contains(log.all()[0], "level=ERROR") {
				t.Fatalf("log is %q, want an error", log.all())
			}
		})
	}
}

// TestBadAnswerPanics: sizes the protocol can't carry are a bug of the handler.
func TestBadAnswerPanics(t *testing.T) {
	for _, p := range []Payload{
		{Chunks: []Chunk{{At: bytes.NewReader(nil), Len: -1}}},
		{Chunks: []Chunk{{At: bytes.NewReader(nil), Off: -1, Len: 1}}},
		{Chunks: []Chunk{
			{At: bytes.NewReader(nil), Len: 1 << 30}, {At: bytes.NewReader(nil), Len: 1 << 30},
		}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is taken for an answer", p)
				}
			}()
			p.sizes()
		}()
	}
}
