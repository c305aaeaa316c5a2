package api

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// fill puts one element into each list of a message, and a value into each field that may be null.
func fill(v reflect.Value, id kafkaproto.TopicID) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "Version" && f.Name != "UnknownTags" {
				fill(v.Field(i), id)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("bytes"))
			return
		}
		one := reflect.New(v.Type().Elem())
		if d := one.MethodByName("Default"); d.IsValid() {
			d.Call(nil)
		}
		fill(one.Elem(), id)
		v.Set(reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), one.Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), id)
	case reflect.String:
		v.SetString("t")
	case reflect.Array:
		v.Set(reflect.ValueOf([16]byte(id)))
	}
}

// sample is a request with one of everything, tame enough to be answered soon.
func sample(key, version int16, topic *Topic) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	req.SetVersion(version)
	fill(reflect.ValueOf(req).Elem(), topic.ID)
	switch q := req.(type) {
	case *kmsg.ProduceRequest:
		q.Acks, q.TransactionID = 1, nil
		q.Topics[0].Partitions[0].Records = recordsOf(batch.BuilderOptions{}, 10)
	case *kmsg.FetchRequest:
		q.MaxWaitMillis, q.SessionEpoch = 0, 0
	case *kmsg.JoinGroupRequest:
		q.Group, q.MemberID, q.InstanceID = fmt.Sprint("group", version), "", nil
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 10_000, 100
	case *kmsg.DescribeClusterRequest:
		q.EndpointType = 1
	case *kmsg.CreateTopicsRequest:
		q.Topics[0].Topic, q.ValidateOnly = "new", true
	case *kmsg.CreatePartitionsRequest:
		q.ValidateOnly = true
	case *kmsg.DeleteTopicsRequest: // not the one that the others need
		q.TopicNames = []string{"gone"}
		q.Topics[0].TopicID = kafkaproto.TopicID{9}
		q.Topics[0].Topic = nil
	case *kmsg.ApiVersionsRequest:
		q.ClusterID, q.NodeID = nil, -1
	}
	return req
}

// TestEveryVersion answers every API in every version: what was decoded, served and encoded is a
// whole message of that version.
func TestEveryVersion(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	for _, row := range Table {
		for v := row.Min; v <= row.Max; v++ {
			c := r.dial() // group members of their own
			req := sample(row.Key, v, topic)
			c.send(req)
			c.receive(req)
		}
		if got := r.broker.Stats.API(row.Key).Requests.Load(); got != int64(row.Max-row.Min+1) {
			t.Errorf("%s: %d requests counted", row.Name, got)
		}
	}
}

// TestUnservedRequests closes the connection for what is not in the table, as Kafka does, and says
// why once per connection. Earlier answers are out before.
func TestUnservedRequests(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, x := range []struct{ key, version int16 }{
		{0, 2}, {0, 14}, {1, 3}, {1, 19}, {2, 0}, {3, 14}, {3, -1}, {4, 0}, {7, 0}, {99, 0}, {-1, 0}, {9999, 1},
	} {
		c := r.dial()
		c.send(kmsg.NewPtrMetadataRequest())
		raw := binary.BigEndian.AppendUint16(nil, uint16(x.key))
		raw = binary.BigEndian.AppendUint16(raw, uint16(x.version))
		raw = append(raw, 0, 0, 0, 5, 0xff, 0xff, 0, 0, 0, 0, 0, 0)
		c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
		c.receive(kmsg.NewPtrMetadataRequest())
		c.wantClosed(fmt.Sprintf("key %d version %d", x.key, x.version))
	}
}

// TestRow65And66Frames closes the connection for requests that are cut short, wherever that is, and
// takes a null client id and trailing bytes.
func TestRow65And66Frames(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	send := func(c *client, frame []byte) {
		c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	}
	for _, version := range []int16{1, 12} {
		req := sample(3, version, topic)
		whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("x")).AppendRequest(nil, req, 1)[4:]
		for n := range len(whole) - 1 {
			if version == 12 && n == len(whole)-1 {
				break
			}
			c := r.dial()
			send(c, whole[:n])
			c.wantClosed(fmt.Sprintf("Metadata version %d cut at %d of %d", version, n, len(whole)))
		}
		c := r.dial()
		c.owed = []int32{1}
		send(c, append(bytes.Clone(whole), "trailing"...))
		c.receive(req)

		null := bytes.Clone(whole[:8])
		null = append(append(null, 0xff, 0xff), whole[8+2+1:]...)
		c.owed = []int32{1}
		send(c, null)
		c.receive(req)
	}
	// A tag section with more fields than anyone has.
	c := r.dial()
	head := append([]byte{0, 3, 0, 12, 0, 0, 0, 1, 0, 0}, binary.AppendUvarint(nil, maxTags+1)...)
	send(c, append(head, make([]byte, 3*maxTags)...))
	c.wantClosed("too many tags")
}

// TestPooledBuffers keeps what a request lies in untouched until its answer is made: the server
// overwrites each buffer that is given back (A4).
func TestPooledBuffers(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"sluice.durability": "strict"}})
	name := strings.Repeat("a-long-name", 20)
	topic := r.create(name, 3)
	c := r.dial()
	for range 20 {
		for _, v := range []int16{3, 9, 12, 13} {
			req := produceRequest(topic, -1, recordsOf(batch.BuilderOptions{}, 100), 0, 1, 2)
			resp := ask[*kmsg.ProduceResponse](c, req, v)
			if v < 13 && resp.Topics[0].Topic != name {
				t.Fatalf("version %d answers topic %q", v, resp.Topics[0].Topic)
			}
		}
		list := kmsg.NewPtrListOffsetsRequest()
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = name
		list.Topics = append(list.Topics, lt)
		if resp := ask[*kmsg.ListOffsetsResponse](c, list, 7); resp.Topics[0].Topic != name {
			t.Fatalf("ListOffsets answers topic %q", resp.Topics[0].Topic)
		}
	}
}

// FuzzHeader reads any bytes as a request header: what is read is what was written.
func FuzzHeader(f *testing.F) {
	f.Add([]byte{0, 3, 0, 12, 0, 0, 0, 1, 0, 1, 'x', 0, 1, 0})
	f.Add([]byte{0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 1, 5, 2, 'a', 'b'})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := parseHeader(frame)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint16(nil, uint16(h.key))
		again = binary.BigEndian.AppendUint16(again, uint16(h.version))
		again = binary.BigEndian.AppendUint32(again, uint32(h.correlation))
		if !bytes.Equal(again, frame[:8]) || !bytes.HasSuffix(frame, h.body) {
			t.Fatalf("header %+v of %x", h, frame)
		}
		if n := len(frame) - len(h.body) - 10; n != len(h.clientID) || string(frame[10:10+n]) != h.clientID {
			t.Fatalf("client id %q of %x", h.clientID, frame)
		}
		if rest, err := skipTags(h.body); err == nil && !bytes.HasSuffix(h.body, rest) {
			t.Fatalf("%x is no tail of %x", rest, h.body)
		}
	})
}

func heapAllocs() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// FuzzDispatch feeds any frame to the broker. Nothing panics, and what is allocated is in proportion
// to the frame (row 66). The connection either answers, waits, or is closed.
func FuzzDispatch(f *testing.F) {
	r := newRig(f, rigOptions{quiet: true, config: map[string]string{
		"auto.create.topics.enable": "true", "offsets.topic.num.partitions": "2",
	}})
	topic := r.create("t", 2)
	for _, row := range Table {
		for v := row.Min; v <= row.Max; v++ {
			format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("x"))
			f.Add(format.AppendRequest(nil, sample(row.Key, v, topic), 1)[4:])
			plain := kmsg.RequestForKey(row.Key)
			plain.SetVersion(v)
			f.Add(format.AppendRequest(nil, plain, 1)[4:])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 1<<16 || len(r.broker.Topics()) > 200 {
			return
		}
		before := heapAllocs()
		here, there := net.Pipe()
		if err := r.server.ServeConn("PLAINTEXT", there); err != nil {
			t.Fatal(err)
		}
		raw := append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
		_ = here.SetDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := here.Write(raw); err == nil {
			var size [4]byte
			if _, err := io.ReadFull(here, size[:]); err == nil {
				_, _ = io.CopyN(io.Discard, here, int64(binary.BigEndian.Uint32(size[:])))
			}
		}
		_ = here.Close()
		if grown, limit := heapAllocs()-before, uint64(16<<20+200*len(frame)); grown > limit {
			t.Errorf("%d bytes allocated for a frame of %d", grown, len(frame))
		}
	})
}
