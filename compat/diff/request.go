package diff

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// defaultClient is the client id of a connection unless a case asks for another.
	defaultClient = "diff"
	// rawCorrelation is the correlation id of hand-made frames unless they say otherwise.
	rawCorrelation = 7777
	// answerWithin bounds the wait for any answer.
	answerWithin   = 20 * time.Second
	keyApiVersions = 18
)

// keyOf returns the number of an API by its name.
func keyOf(name string) (int16, bool) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.NameForKey(key) == name {
			return key, true
		}
	}
	return 0, false
}

// newRequest makes a request of an API at a version and fills its body from an evaluated object.
func newRequest(name string, version int16, body object) (kmsg.Request, error) {
	key, ok := keyOf(name)
	if !ok {
		return nil, fmt.Errorf("no API %s", name)
	}
	request := kmsg.RequestForKey(key)
	if err := assignStruct(reflect.ValueOf(request).Elem(), body); err != nil {
		return nil, err
	}
	request.SetVersion(version)
	return request, nil
}

// encodeRequest writes header and body, without the size prefix.
func encodeRequest(request kmsg.Request, correlation int32, client *string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(request.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(request.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	if client == nil {
		b = binary.BigEndian.AppendUint16(b, 0xffff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(*client)))
		b = append(b, *client...)
	}
	if request.IsFlexible() {
		b = append(b, 0)
	}
	return request.AppendTo(b)
}

// expected is a request whose answer has not been read yet.
type expected struct {
	key, version int16
	correlation  int32
}

// connection is one raw connection of a case. Requests may be written before earlier answers were
// read; answers are matched in order, as Kafka gives them.
type connection struct {
	net.Conn
	client  *string
	next    int32
	pending []expected
}

func dial(address string, client *string) (*connection, error) {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, client: client}, nil
}

// post writes a request and remembers that its answer is due.
func (c *connection) post(request kmsg.Request) error {
	c.next++
	c.pending = append(c.pending, expected{request.Key(), request.GetVersion(), c.next})
	return c.frame(encodeRequest(request, c.next, c.client))
}

// frame writes bytes behind their size.
func (c *connection) frame(b []byte) error {
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// outcome is what came of waiting for an answer: one of the words below, and the answer's frame.
type outcome struct {
	word    string
	request expected
	frame   []byte
}

const (
	outcomeAnswer = "answer"
	outcomeClosed = "closed"
	outcomeSilent = "silent"
)

// receive waits for the next frame. A reset counts as a close: which of the two a peer sees depends
// on whether the broker had read everything.
func (c *connection) receive(within time.Duration) (outcome, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return endOf(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return endOf(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if string(size[:]) == "HTTP" {
		// Words for a person who spoke HTTP to a broker, then the end.
		_, err := io.Copy(io.Discard, c)
		return endOf(cmp.Or(err, io.EOF))
	}
	if n > 64<<20 {
		return outcome{}, fmt.Errorf("an answer of %d bytes", n)
	}
	if err := c.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return endOf(err)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(c, frame); err != nil {
		return outcome{}, fmt.Errorf("an answer that is cut off: %w", err)
	}
	o := outcome{word: outcomeAnswer, frame: frame, request: expected{key: -1}}
	if len(c.pending) > 0 {
		o.request = c.pending[0]
		c.pending = c.pending[1:]
	}
	return o, nil
}

func endOf(err error) (outcome, error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return outcome{word: outcomeSilent}, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return outcome{word: outcomeClosed}, nil
	}
	return outcome{}, err
}

// decoded is a parsed answer and what was odd about its frame.
type decoded struct {
	response    kmsg.Response
	correlation int32
	// version is the version of the body, which differs from the asked one where ApiVersions falls
	// back to 0.
	version int16
	// surplus counts bytes behind the parsed body, on which strict clients fail.
	surplus int
}

// decode parses an answer by the request it belongs to.
func (o outcome) decode() (decoded, error) {
	var d decoded
	request := kmsg.RequestForKey(o.request.key)
	if request == nil {
		return d, fmt.Errorf("an answer nobody asked for, %d bytes", len(o.frame))
	}
	if len(o.frame) < 4 {
		return d, fmt.Errorf("an answer of %d bytes", len(o.frame))
	}
	d.correlation = int32(binary.BigEndian.Uint32(o.frame))
	body := o.frame[4:]
	request.SetVersion(o.request.version)
	d.version = o.request.version
	if o.request.key == keyApiVersions {
		if len(body) >= 2 && body[0] == 0 && body[1] == 35 {
			d.version = 0
		}
	} else if request.IsFlexible() {
		if len(body) == 0 || body[0] != 0 {
			return d, fmt.Errorf("a flexible answer whose header has tags or none: % x", body[:min(8, len(body))])
		}
		body = body[1:]
	}
	d.response = request.ResponseKind()
	d.response.SetVersion(d.version)
	if err := d.response.ReadFrom(body); err != nil {
		return d, fmt.Errorf("the answer does not parse: %w", err)
	}
	d.surplus = len(body) - len(d.response.AppendTo(nil))
	return d, nil
}
