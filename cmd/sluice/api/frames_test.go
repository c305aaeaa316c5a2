package api

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto/server"
)

// sendFrame writes a request of bytes, with its size before it.
func (c *client) sendFrame(parts ...[]byte) {
	c.t.Helper()
	var frame []byte
	for _, p := range parts {
		frame = append(frame, p...)
	}
	c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
}

// TestRow65FrameSize closes for a frame above socket.request.max.bytes, at its size alone.
func TestRow65FrameSize(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *server.Options) { o.MaxRequestBytes = 1000 }})
	r.create("t", 1)
	metadata := []byte{0, 3, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0} // no topics
	c := r.dial()
	c.owed = []int32{1}
	c.sendFrame(metadata, make([]byte, 1000-len(metadata)))
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(4)
	c.receive(req)
	for _, size := range []uint32{1001, 1 << 31, 1<<32 - 1} {
		c := r.dial()
		c.write(binary.BigEndian.AppendUint32(nil, size))
		c.wantClosed("a large frame")
	}
}

// TestRow65Idle closes a connection on which nothing happens for ten minutes, and not one whose
// request waits.
func TestRow65Idle(t *testing.T) {
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		idle, parked := r.dial(), r.dial()
		req := fetchOf(asking{topic: topic})
		req.MaxWaitMillis = int32((15 * time.Minute).Milliseconds())
		req.SetVersion(12)
		parked.send(req)
		time.Sleep(9 * time.Minute)
		ask[*kmsg.MetadataResponse](idle, kmsg.NewPtrMetadataRequest(), 1)
		time.Sleep(5*time.Minute + 55*time.Second)
		parked.receive(req) // at fifteen minutes
		time.Sleep(3 * time.Minute)
		ask[*kmsg.MetadataResponse](idle, kmsg.NewPtrMetadataRequest(), 1)
		time.Sleep(11 * time.Minute)
		idle.wantClosed("idle")
	})
}

// TestRow66Tolerated answers what is odd and can be read, as Kafka does (§3b).
func TestRow66Tolerated(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("t", 1)
	c := r.dial()
	head := func(version byte, rest ...byte) []byte {
		return append([]byte{0, 3, 0, version, 0, 0, 0, 1, 0xff, 0xff}, rest...)
	}
	for _, x := range []struct {
		name    string
		version int16
		frame   []byte
	}{
		{"trailing bytes", 1, head(1, 0, 0, 0, 0, 9, 9, 9)},
		{"trailing bytes, flexible", 9, head(9, 0, 1, 0, 0, 0, 0, 9, 9)},
		{"unordered tags", 9, head(9, 0, 1, 0, 0, 0, 2, 7, 1, 'a', 3, 0)},
		{"repeated tags", 9, head(9, 0, 1, 0, 0, 0, 2, 7, 0, 7, 1, 'x')},
		{"header tags", 9, head(9, 1, 5, 2, 'a', 'b', 1, 0, 0, 0, 0)},
		{"boolean 7", 4, head(4, 0, 0, 0, 0, 7)},
		{"array count -2", 1, head(1, 0xff, 0xff, 0xff, 0xfe)},
		{"no UTF-8", 1, head(1, 0, 0, 0, 1, 0, 1, 0xff)},
	} {
		c.owed = []int32{1}
		c.sendFrame(x.frame)
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(x.version)
		resp := c.receive(req).(*kmsg.MetadataResponse)
		if len(resp.Brokers) != 1 {
			t.Errorf("%s: %+v", x.name, resp)
		}
	}
}

// TestRow66Counts closes for arrays that say more than the frame can hold, before anything is
// allocated for them.
func TestRow66Counts(t *testing.T) {
	r := newRig(t, rigOptions{})
	for name, frame := range map[string][]byte{
		"a million and one topics": {0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0x0f, 0x42, 0x41, 0, 1, 'a'},
		"two billion topics":       {0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff},
		"compact":                  {0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0},
		"a long string":            {0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 1, 0x7f, 0xff, 'a'},
		"a cut varint":             {0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff},
		"records":                  {0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff},
	} {
		c := r.dial()
		before := heapAllocs()
		c.sendFrame(frame)
		c.wantClosed(name)
		if grown := heapAllocs() - before; grown > 4<<20 {
			t.Errorf("%s: %d bytes allocated", name, grown)
		}
	}
}

// TestRow65ClientID takes a null client id for an empty one and any length that a frame can hold.
func TestRow65ClientID(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	req := kmsg.NewPtrMetadataRequest()
	for _, id := range []string{"", "x", strings.Repeat("long", 8000), "\xff\xfe"} {
		raw := binary.BigEndian.AppendUint16([]byte{0, 3, 0, 0, 0, 0, 0, 1}, uint16(len(id)))
		c.owed = []int32{1}
		c.sendFrame(raw, []byte(id), []byte{0, 0, 0, 0})
		c.receive(req)
	}
	for _, length := range []uint16{0xffff, 0xfffe, 0x8000} { // null, and what Kafka takes for it
		c.owed = []int32{1}
		c.sendFrame(binary.BigEndian.AppendUint16([]byte{0, 3, 0, 0, 0, 0, 0, 1}, length), []byte{0, 0, 0, 0})
		c.receive(req)
	}
	for _, rest := range []string{"\x00\x05abcd", "\x7f\xff", "\x00"} {
		c := r.dial()
		c.sendFrame([]byte{0, 3, 0, 0, 0, 0, 0, 1}, []byte(rest))
		c.wantClosed("a client id beyond the frame")
	}
}
