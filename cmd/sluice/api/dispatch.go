package api

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto/server"
)

// header is a request header, versions 1 and 2.
type header struct {
	key, version int16
	correlation  int32
	clientID     string
	body         []byte
}

var errCut = errors.New("request is cut short")

// parseHeader reads what stands before a request's body. The tags of a flexible header are
// skipped; whether there are any follows from the key and version.
func parseHeader(frame []byte) (header, error) {
	if len(frame) < 8 {
		return header{}, errCut
	}
	h := header{
		key:         int16(binary.BigEndian.Uint16(frame)),
		version:     int16(binary.BigEndian.Uint16(frame[2:])),
		correlation: int32(binary.BigEndian.Uint32(frame[4:])),
	}
	rest := frame[8:]
	if len(rest) < 2 {
		return header{}, errCut
	}
	n := int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	if n > len(rest) {
		return header{}, errCut
	}
	if n > 0 { // null means "" (row 65), and Kafka takes any negative length for null
		h.clientID = string(rest[:n])
		rest = rest[n:]
	}
	h.body = rest
	return h, nil
}

// maxTags bounds a tag section, as Kafka 4.4 does (row 66).
const maxTags = 10_000

// skipTags steps over a tag section.
func skipTags(b []byte) ([]byte, error) {
	num, n := binary.Uvarint(b)
	if n <= 0 || num > maxTags {
		return nil, errCut
	}
	b = b[n:]
	for ; num > 0; num-- {
		if _, n = binary.Uvarint(b); n <= 0 {
			return nil, errCut
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errCut
		}
		b = b[n+int(size):]
	}
	return b, nil
}

// Serve decodes one frame and calls its handler. It runs on the connection's reader, in arrival
// order.
func (b *Broker) Serve(sr *server.Request) {
	r := &Request{Request: sr, broker: b, size: len(sr.Frame)}
	h, err := parseHeader(sr.Frame)
	if err != nil {
		sr.Fail("request header: " + err.Error())
		return
	}
	r.Key, r.Version, r.CorrelationID, r.ClientID = h.key, h.version, h.correlation, h.clientID
	row := lookup(h.key)
	if row == nil {
		b.refuse(r, fmt.Sprintf("API key %d is not served", h.key))
		return
	}
	r.row = row
	if h.version < row.Min || h.version > row.Max {
		if h.key == int16(kmsg.ApiVersions) {
			b.unsupportedApiVersions(r)
			return
		}
		b.refuse(r, fmt.Sprintf("%s version %d is not served (%d to %d are)",
			row.Name, h.version, row.Min, row.Max))
		return
	}
	r.Body = kmsg.RequestForKey(h.key)
	r.Body.SetVersion(h.version)
	r.flexible = r.Body.IsFlexible()
	if err := r.decode(h.body); err != nil {
		b.refuse(r, fmt.Sprintf("%s version %d does not decode: %v", row.Name, h.version, err))
		return
	}
	if !row.keeps {
		sr.Recycle()
	}
	row.serve(b, r)
}

// decode reads the body. The hot APIs alias the frame, strings too: their handlers copy what they
// keep (A4).
func (r *Request) decode(body []byte) error {
	if r.flexible {
		var err error
		if body, err = skipTags(body); err != nil {
			return err
		}
	}
	if r.row.aliases {
		if u, ok := r.Body.(kmsg.UnsafeReadFrom); ok {
			return u.UnsafeReadFrom(body)
		}
	}
	return r.Body.ReadFrom(body)
}

// refuse closes the connection, as Kafka does, and says so once per connection: the client itself
// sees only an end of file (lessons.md 1).
func (b *Broker) refuse(r *Request, why string) {
	info := r.Info()
	if !info.warned {
		info.warned = true
		b.Log.Warn("request refused, connection closed", "why", why,
			"peer", r.Conn.RemoteAddr().String(), "client_id", r.ClientID,
			"software", info.SoftwareName, "software_version", info.SoftwareVersion)
	}
	r.Close(why)
}
