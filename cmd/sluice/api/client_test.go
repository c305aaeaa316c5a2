package api

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client is one client connection, without anything of a client library behind it, so that a
// test chooses versions.
type client struct {
	t    testing.TB
	conn net.Conn
	next int32
	id   string  // client id
	owed []int32 // correlation ids of the requests without an answer, in order
}

func newClient(t testing.TB, conn net.Conn) *client {
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, id: "tester"}
}

func dialTCP(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

// send writes a request.
func (c *client) send(req kmsg.Request) {
	c.t.Helper()
	c.next++
	c.owed = append(c.owed, c.next)
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.id))
	c.write(f.AppendRequest(nil, req, c.next))
}

func (c *client) write(raw []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(raw); err != nil {
		c.t.Fatal(err)
	}
}

// frame reads the next answer, header included; io.EOF when the broker has closed.
func (c *client) frame() ([]byte, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, frame)
	return frame, err
}

// receive reads the answer to req, which must be the first that is owed.
func (c *client) receive(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	frame, err := c.frame()
	if err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	want := c.owed[0]
	c.owed = c.owed[1:]
	if got := int32(binary.BigEndian.Uint32(frame)); got != want {
		c.t.Fatalf("%s: correlation id %d, want %d", kmsg.NameForKey(req.Key()), got, want)
	}
	return c.decode(req, frame)
}

// decode reads an answer to req; not a byte may be left.
func (c *client) decode(req kmsg.Request, frame []byte) kmsg.Response {
	c.t.Helper()
	body := frame[4:]
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if body[0] != 0 {
			c.t.Fatalf("%s: response header has tags", kmsg.NameForKey(req.Key()))
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("%s version %d does not decode: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
		c.t.Fatalf("%s version %d: %d bytes, and %d of them make sense",
			kmsg.NameForKey(req.Key()), req.GetVersion(), len(body), len(again))
	}
	return resp
}

// wantClosed fails unless the broker closes without a further answer.
func (c *client) wantClosed(what string) {
	c.t.Helper()
	// A pipe does not even take a deadline once the other end has closed it.
	if frame, err := c.frame(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatalf("%s: the connection is not closed: %d bytes, %v", what, len(frame), err)
	}
}

// ask sends a request and reads its answer.
func ask[R kmsg.Response](c *client, req kmsg.Request, version int16) R {
	c.t.Helper()
	req.SetVersion(version)
	c.send(req)
	return c.receive(req).(R)
}

// wantCode compares an error code by its name.
func wantCode(t testing.TB, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: code %d, want %d", what, got, code)
	}
}

// eachVersion runs fn for the versions that the table serves of an API.
func eachVersion(t *testing.T, key kmsg.Key, fn func(t *testing.T, version int16)) {
	t.Helper()
	row := lookup(int16(key))
	if row == nil {
		t.Fatalf("%s is not served", key.Name())
	}
	for v := row.Min; v <= row.Max; v++ {
		fn(t, v)
		if t.Failed() {
			t.Fatalf("in %s version %d", key.Name(), v)
		}
	}
}
