package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"
)

// BenchmarkEcho is the round trip of a 104-byte request with so many under way.
func BenchmarkEcho(b *testing.B) {
	for _, depth := range []int{1, 5, 32} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			s := startServer(b, echo, Options{})
			c := dial(b, s)
			_ = c.SetDeadline(time.Now().Add(time.Hour))
			request := frame(make([]byte, 100))
			answer := make([]byte, len(request))
			b.ReportAllocs()
			b.ResetTimer()
			sent := 0
			for i := range b.N {
				for sent < b.N && sent < i+depth {
					if _, err := c.Write(request); err != nil {
						b.Fatal(err)
					}
					sent++
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParked is the round trip when another goroutine answers, as after a commit.
func BenchmarkParked(b *testing.B) {
	requests := make(chan *Request, 64)
	s := startServer(b, func(r *Request) { requests <- r }, Options{})
	go func() {
		for r := range requests {
			echo(r)
		}
	}()
	defer close(requests)
	c := dial(b, s)
	request := frame(make([]byte, 100))
	answer := make([]byte, len(request))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		_, _ = c.Write(request)
		if _, err := io.ReadFull(c, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReceive is a stream of large requests, five under way, answered with 4 bytes.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20} {
		b.Run(fmt.Sprint("size=", size>>10, "KiB"), func(b *testing.B) {
			s := startServer(b, func(r *Request) {
				r.Recycle()
				r.ReplyBuf([]byte("done"), nil)
			}, Options{})
			c := dial(b, s)
			_ = c.SetDeadline(time.Now().Add(time.Hour))
			request := frame(make([]byte, size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for range b.N {
					_, _ = c.Write(request)
				}
			}()
			answer := make([]byte, 8)
			for range b.N {
				if _, err := io.ReadFull(c, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFile sends a range of a file per request: 64 KiB and more by sendfile.
func BenchmarkFile(b *testing.B) {
	for _, size := range []int{16 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint("size=", size>>10, "KiB"), func(b *testing.B) {
			f, _ := dataFile(b, size)
			head := make([]byte, 60)
			s := startServer(b, func(r *Request) {
				r.Recycle()
				r.Reply(Payload{Chunks: []Chunk{{Buf: head}, {File: f, Len: int64(size)}}})
			}, Options{})
			c := dial(b, s)
			_ = c.SetDeadline(time.Now().Add(time.Hour))
			request := frame(make([]byte, 100))
			buf := make([]byte, 4+len(head)+size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_, _ = c.Write(request)
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
				if n := binary.BigEndian.Uint32(buf); int(n) != len(buf)-4 {
					b.Fatalf("answer of %d bytes", n)
				}
			}
		})
	}
}
