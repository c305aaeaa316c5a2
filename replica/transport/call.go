package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// The status of an answer: 0, a Kafka error's code, or statusText for any other error.
const statusText = int16(-0x7fff)

// status is how an error travels: a code and a sentence.
func status(err error) (code int16, text string) {
	var k *kerr.Error
	if errors.As(err, &k) {
		if m := kafkaproto.Message(err); m != nil {
			text = *m
		}
		return k.Code, short(text)
	}
	return statusText, short(err.Error())
}

func short(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// remoteError is the error that status was made of.
func remoteError(node kafkaproto.NodeID, code int16, text []byte) error {
	s := strings.ToValidUTF8(short(string(text)), "?")
	var k *kerr.Error
	if code != statusText && errors.As(kerr.ErrorForCode(code), &k) {
		return &kafkaproto.Fault{Kafka: k, Text: s}
	}
	return &RemoteError{Node: node, Text: s}
}

type answer struct {
	body []byte
	err  error
}

// Call is Transport's.
func (t *TCP) Call(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	p := t.peer(to)
	if p == nil {
		return nil, fmt.Errorf("node %d: %w: %w", to, ErrUnreachable, errNoPeer)
	}
	if len(body) > MaxCall {
		return nil, fmt.Errorf("transport: a call of %d bytes, more than %d", len(body), MaxCall)
	}
	l := p.links[roleControl]
	got := make(chan answer, 1)
	id, err := l.open(&request{done: func(b []byte, err error) { got <- answer{b, err} }}, func(id uint64) []byte {
		return idFrame(kindCall, id, binary.BigEndian.AppendUint16(nil, method), body)
	})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-got:
		return a.body, a.err
	case <-ctx.Done():
	}
	if r := l.forget(id); r != nil {
		l.enqueue(item{frame: idFrame(kindCancel, id)})
	}
	return nil, ctx.Err()
}

// CallAddr makes one call to whoever listens at addr: how a node without a number asks to join, and
// founders find each other. It proves the secret or certificate as any connection does; the other
// side's Handler hears of it as from NoNode.
func (t *TCP) CallAddr(ctx context.Context, addr string, method uint16, body []byte) ([]byte, error) {
	if len(body) > MaxCall {
		return nil, fmt.Errorf("transport: a call of %d bytes, more than %d", len(body), MaxCall)
	}
	t.mu.Lock()
	if t.mu.closed {
		t.mu.Unlock()
		return nil, ErrClosed
	}
	t.wg.Add(1)
	t.mu.Unlock()
	defer t.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	conn, w, err := t.connect(ctx, addr, roleJoin, NoNode)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", addr, ErrUnreachable, err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write(idFrame(kindCall, 1, binary.BigEndian.AppendUint16(nil, method), body)); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", addr, ErrLost, err)
	}
	f := newFrameReader(conn, fewBuffer, allow(0, kindAnswer), t.guard(conn))
	fr, err := f.next()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w: %w", addr, ErrLost, err)
	}
	_, out, err := parseAnswer(w.Node, fr.body)
	return out, err
}

// parseAnswer reads kindAnswer and kindEnd.
func parseAnswer(node kafkaproto.NodeID, b []byte) (id uint64, body []byte, err error) {
	id, code := binary.BigEndian.Uint64(b), int16(binary.BigEndian.Uint16(b[idSize:]))
	if code != 0 {
		return id, nil, remoteError(node, code, b[endSize:])
	}
	return id, append([]byte{}, b[endSize:]...), nil
}

// read takes what comes back on a connection that we dialled.
func (l *link) read(conn net.Conn) error {
	var a allowed // on data connections nothing, up to their end
	size := fewBuffer
	switch l.role {
	case roleControl:
		a = allow(0, kindAnswer)
	case roleBulk:
		a, size = allow(0, kindChunk, kindEnd), readBuffer
	}
	f := newFrameReader(conn, size, a, l.p.t.guard(conn))
	for {
		fr, err := f.next()
		if err != nil {
			return err
		}
		id := binary.BigEndian.Uint64(fr.body)
		switch fr.kind {
		case kindAnswer, kindEnd:
			_, body, err := parseAnswer(l.p.id, fr.body)
			if r := l.forget(id); r != nil {
				r.done(body, err)
			}
		case kindChunk:
			if r := l.request(id); r != nil && (r.stream == nil || !r.stream.push(fr.body[idSize:])) {
				return kafkaproto.Corruptf("node %d sends more of a stream than it may", l.p.id)
			}
		}
	}
}

// call serves one request on a goroutine of its own.
func (in *inbound) call(b []byte) error {
	id, method := binary.BigEndian.Uint64(b), binary.BigEndian.Uint16(b[idSize:])
	body := append([]byte(nil), b[callHead:]...)
	ctx, cancel := context.WithCancel(in.ctx)
	in.mu.Lock()
	_, twice := in.mu.calls[id]
	full := len(in.mu.calls) >= callsMax
	if !twice && !full {
		in.mu.calls[id] = cancel
	}
	in.mu.Unlock()
	if twice {
		cancel()
		return in.fail("call %d was made twice", id)
	}
	in.jobs.Add(1)
	go func() {
		defer in.jobs.Done()
		defer cancel()
		var out []byte
		err := error(kafkaproto.Faultf(kerr.ThrottlingQuotaExceeded, "%d calls are under way", callsMax))
		if !full {
			out, err = in.t.handler.Call(ctx, in.from, method, body)
			in.mu.Lock()
			delete(in.mu.calls, id)
			in.mu.Unlock()
		}
		if err == nil && len(out) > MaxCall {
			err = fmt.Errorf("an answer of %d bytes, more than %d", len(out), MaxCall)
		}
		if in.ctx.Err() == nil {
			_ = in.write(answerFrame(kindAnswer, id, out, err)) // who asked learns it from the connection's end
		}
	}()
	return nil
}

// answerFrame makes kindAnswer or kindEnd.
func answerFrame(kind uint8, id uint64, body []byte, err error) []byte {
	var code int16
	if err != nil {
		var text string
		code, text = status(err)
		body = []byte(text)
	}
	return idFrame(kind, id, binary.BigEndian.AppendUint16(nil, uint16(code)), body)
}
