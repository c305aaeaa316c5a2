package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// source is a stream's reader that tells what became of it.
type source struct {
	io.Reader
	closed atomic.Bool
	read   atomic.Int64
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.read.Add(int64(n))
	return n, err
}

func (s *source) Close() error { s.closed.Store(true); return nil }

// endless gives zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestStreams reads several streams of different sizes at once.
func TestStreams(t *testing.T) {
	b := &recorder{stream: func(_ context.Context, _ kafkaproto.NodeID, method uint16, _ []byte) (io.ReadCloser, error) {
		return &source{Reader: bytes.NewReader(pattern(uint32(method), int(method)*12345))}, nil
	}}
	one, _ := startPair(t, &recorder{}, b, nil)
	var all sync.WaitGroup
	for method := range uint16(40) {
		all.Go(func() {
			r, err := one.OpenStream(context.Background(), 2, method*10, nil)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, pattern(uint32(method)*10, int(method)*123450)) {
				t.Errorf("stream %d: %d bytes, %v", method, len(got), err)
			}
			_ = r.Close()
		})
	}
	all.Wait()
}

// TestStreamErrors ends streams in every way but the good one: none of them looks like the end.
func TestStreamErrors(t *testing.T) {
	var last atomic.Pointer[source]
	b := &recorder{stream: func(_ context.Context, _ kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
		switch method {
		case 1:
			return nil, kafkaproto.Faultf(kerr.UnknownTopicID, "no such snapshot")
		case 2:
			last.Store(&source{Reader: io.MultiReader(bytes.NewReader(make([]byte, 100)), failing{errors.New("disk on fire")})})
		case 3:
			last.Store(&source{Reader: io.MultiReader(bytes.NewReader(make([]byte, 100)), failing{io.ErrUnexpectedEOF})})
		default:
			last.Store(&source{Reader: endless{}})
		}
		return last.Load(), nil
	}}
	one, two := startPair(t, &recorder{}, b, nil)
	open := func(method uint16) io.ReadCloser {
		t.Helper()
		r, err := one.OpenStream(context.Background(), 2, method, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if _, err := io.ReadAll(open(1)); !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("a refused stream: %v", err)
	}
	for method, text := range map[uint16]string{2: "disk on fire", 3: "unexpected EOF"} {
		if got, err := io.ReadAll(open(method)); err == nil || !strings.Contains(err.Error(), text) || len(got) != 100 {
			t.Errorf("a source that fails: %d bytes, %v", len(got), err)
		}
		eventually(t, "the source is closed", last.Load().closed.Load)
	}
	// A reader that stops reading holds a window, and one that closes stops the source.
	r := open(4)
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if got, err := one.Call(context.Background(), 2, 1, nil); err != nil {
		t.Errorf("a call beside a stream: %q, %v", got, err)
	}
	eventually(t, "the window is full", func() bool { return last.Load().read.Load() == window })
	_ = r.Close()
	eventually(t, "the source is closed", last.Load().closed.Load)
	if _, err := r.Read(make([]byte, 1<<20)); err == nil {
		// what had arrived may still be read
		_, err = io.ReadAll(r)
		if !errors.Is(err, ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := one.OpenStream(ctx, 2, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled stream: %v", err)
	}
	r = open(4)
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = two.Close()
	if _, err := io.ReadAll(r); !errors.Is(err, ErrLost) {
		t.Errorf("a stream whose peer ended: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// pipes starts two nodes in a synctest bubble, connected by pipes.
func pipes(t *testing.T, a, b *recorder, change func(*Options)) (one, two *TCP, stop func()) {
	t.Helper()
	ln := newPipeListener()
	start := func(id kafkaproto.NodeID, r *recorder, l *pipeListener) *TCP {
		opt := Options{ClusterID: "c", Node: id, Incarnation: 1, Secret: testSecret, listener: l,
			dial: func(context.Context, string) (net.Conn, error) { return ln.dial() }}
		if change != nil {
			change(&opt)
		}
		n, err := NewTCP(opt)
		if err != nil {
			t.Fatal(err)
		}
		n.Start(r)
		return n
	}
	one, two = start(1, a, newPipeListener()), start(2, b, ln)
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: "127.0.0.1:1"}})
	synctest.Wait()
	return one, two, func() { _, _ = one.Close(), two.Close() }
}

// TestStreamRate counts virtual seconds: a stream takes its bytes over the rate, and a rate that is
// changed midway counts from then on.
func TestStreamRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 20 << 20
		b := &recorder{stream: func(context.Context, kafkaproto.NodeID, uint16, []byte) (io.ReadCloser, error) {
			return &source{Reader: io.LimitReader(endless{}, size)}, nil
		}}
		one, two, stop := pipes(t, &recorder{}, b, nil)
		defer stop()
		took := func(sender, receiver int64) time.Duration {
			two.SetStreamRate(sender)
			one.SetStreamRate(receiver)
			began := time.Now()
			r, err := one.OpenStream(t.Context(), 2, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			if n, err := io.Copy(io.Discard, r); n != size || err != nil {
				t.Fatalf("%d bytes, %v", n, err)
			}
			return time.Since(began)
		}
		if d := took(0, 0); d != 0 {
			t.Errorf("without a rate: %v", d)
		}
		// 20 MiB at 1 MiB/s: 20 s, less a burst or a window.
		if d := took(1<<20, 0); d < 19*time.Second || d > 20*time.Second {
			t.Errorf("at the sender's rate: %v", d)
		}
		if d := took(0, 1<<20); d < 18*time.Second || d > 20*time.Second {
			t.Errorf("at the receiver's rate: %v", d)
		}
		time.AfterFunc(5*time.Second, func() { two.SetStreamRate(10 << 20) })
		if d := took(1<<20, 0); d < 6*time.Second || d > 7*time.Second {
			t.Errorf("at a rate that was raised after 5 s: %v", d)
		}
	})
}
