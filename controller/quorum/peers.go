package quorum

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/transport"
)

// Transport is the part of a transport.Transport that the controller uses.
type Transport interface {
	Call(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) ([]byte, error)
	OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error)
	SetPeers(peers map[kafkaproto.NodeID]transport.Peer)
}

// The methods of transport.Call and OpenStream that are the controller's.
const (
	MethodCommand uint16 = 0x100 + iota // a command for the active controller
	MethodImage                         // the metadata, as a stream
	MethodFound                         // founders find each other, and a broker finds its cluster
	MethodJoin                          // a broker without a number joins
)

// HandleCall answers a peer (transport.Handler).
func (c *Controller) HandleCall(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	switch {
	case c.rep == nil:
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "this broker is alone")
	case method == MethodCommand && from >= 0:
		return c.rep.command(ctx, body)
	case method == MethodFound:
		return c.rep.g.Membership.card().encode()
	case method == MethodJoin:
		return c.rep.join(body)
	}
	return nil, kafkaproto.Faultf(kerr.InvalidRequest, "method %#x of node %d", method, from)
}

// command carries out a command of another broker, if this one is the active controller.
func (r *replicated) command(ctx context.Context, body []byte) ([]byte, error) {
	cmd, err := decodeCommand(body)
	if err != nil {
		return encodeAnswer(answer{outcome: outcomeDone, err: err})
	}
	got := make(chan answer, 1)
	if !r.c.enqueue(request{command: cmd, answer: func(a answer) { got <- a }}) {
		return encodeAnswer(answer{outcome: outcomeRefused})
	}
	select {
	case a := <-got:
		out, err := encodeAnswer(a)
		if err != nil { // carried out, and too much to tell
			return encodeAnswer(answer{outcome: outcomeUnknown})
		}
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forward asks the active controller, on a goroutine of its own.
func (r *replicated) forward(f forwarding) {
	r.tasks.Go(func() {
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		t := r.c.o.Clock.AfterFunc(commandTimeout, cancel)
		defer t.Stop()
		a := ask(ctx, r.g.Transport, f.to, f.p.command)
		r.post(func() { r.core.forwarded(f.p, a, r.c.o.Clock.Now()) })
	})
}

// ask sends a command to a broker and reads the answer.
func ask(ctx context.Context, tr Transport, to kafkaproto.NodeID, cmd meta.Command) answer {
	body, err := encodeCommand(cmd)
	if err != nil {
		return answer{outcome: outcomeDone, err: err}
	}
	out, err := tr.Call(ctx, to, MethodCommand, body)
	switch {
	case err == nil:
		if a, err := decodeAnswer(out); err == nil {
			return a
		}
		return answer{outcome: outcomeUnknown}
	case errors.Is(err, transport.ErrUnreachable), errors.Is(err, transport.ErrClosed),
		errors.Is(err, kerr.ThrottlingQuotaExceeded), errors.Is(err, kerr.InvalidRequest):
		return answer{outcome: outcomeRefused}
	}
	return answer{outcome: outcomeUnknown}
}

// HandleStream gives a peer the image (transport.Handler).
func (c *Controller) HandleStream(_ context.Context, from kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	if c.rep == nil || method != MethodImage || from < 0 {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "stream %#x of node %d", method, from)
	}
	least, err := decodeAsk(body)
	if err != nil {
		return nil, err
	}
	s := c.rep.shown.Load()
	if s.img.Version() < least {
		return nil, kafkaproto.Faultf(kerr.SnapshotNotFound, "the metadata here are of version %d, and %d is asked for",
			s.img.Version(), least)
	}
	out, err := encodeImage(s.img, s.epoch, clock.Millis(c.o.Clock.Now()))
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(out)), nil
}

// fetchPause lies between two tries to get an image.
const fetchPause = 300 * time.Millisecond

// fetch gets an image from another broker, the leader first: the log does not begin where this one's
// ends.
func (r *replicated) fetch() {
	now := r.c.o.Clock.Now()
	if r.fetching || now.Before(r.fetchAt) {
		return
	}
	var from []kafkaproto.NodeID
	if l := r.core.lead.Leader; l >= 0 && l != r.core.self {
		from = append(from, l)
	} else {
		replicas, _ := r.g.Membership.replicas()
		for _, m := range append(replicas, replicasOf(r.core.image.Nodes())...) {
			if m.Node != r.core.self {
				from = append(from, m.Node)
			}
		}
	}
	if len(from) == 0 {
		return // leadership wakes the loop
	}
	to, least := from[r.fetches%len(from)], int64(r.p.LogStart())
	r.fetches++
	r.fetching = true
	r.tasks.Go(func() {
		img, id, err := r.fetchFrom(to, least)
		r.post(func() { r.fetched(img, id, err) })
	})
}

func (r *replicated) fetchFrom(to kafkaproto.NodeID, least int64) (*meta.Image, snapshotID, error) {
	s, err := r.g.Transport.OpenStream(r.ctx, to, MethodImage, encodeAsk(least))
	if err != nil {
		return nil, snapshotID{}, err
	}
	img, id, err := readImage(s)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, id, err
	}
	// It is kept before it is shown: after a restart the log alone would not do.
	data, err := encodeSnapshot(img, id.epoch, clock.Millis(r.c.o.Clock.Now()))
	if err == nil {
		err = vfs.WriteFileAtomic(r.c.o.FS, path.Join(r.c.cut.Dir(), id.file()), data)
	}
	return img, id, err
}

// fetched installs an image that came.
func (r *replicated) fetched(img *meta.Image, id snapshotID, err error) {
	r.fetching = false
	if err != nil {
		r.c.logger.Warn("no metadata from another broker", "error", err)
		r.fetchAt = r.c.o.Clock.Now().Add(fetchPause)
		r.c.o.Clock.AfterFunc(fetchPause, r.c.kick)
		return
	}
	if img.Version() <= r.core.image.Version() {
		return
	}
	r.c.logger.Info("metadata taken from another broker", "version", img.Version())
	r.epoch = id.epoch
	r.c.snap.last, r.c.snap.version, r.c.snap.bytes = &id, img.Version(), 0
	r.show(img)
	r.core.applied(img, nil)
}

// memberLog is the log as snapshots see it: only the leader moves its start.
type memberLog struct {
	r   *replicated
	dir string
}

func (m memberLog) Dir() string                    { return m.dir }
func (m memberLog) Term() kafkaproto.LeaderEpoch   { return m.r.epoch }
func (m memberLog) Roll() error                    { return m.r.p.Roll() }
func (m memberLog) StartOffset() kafkaproto.Offset { return m.r.p.LogStart() }

// DeleteRecords moves the log start, when this broker leads; another leader does so by its own snapshots.
func (m memberLog) DeleteRecords(to kafkaproto.Offset) error {
	if !m.r.p.Leadership().Ready {
		return nil
	}
	if _, err := m.r.p.DeleteRecords(to); err != nil {
		m.r.c.logger.Info("the start of the metadata log stays where it is", "error", err)
	}
	return nil
}
