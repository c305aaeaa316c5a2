package group

import (
	"fmt"

	"github.com/sluicelog/sluice/kafkaproto"
)

// The records of __consumer_offsets, in Kafka's formats. Every key and value begins with its
// version as int16; the key's version is also the record's kind.
//
//	offset key   1: group string, topic string, partition int32              (0 is the same)
//	      value  3: offset int64, leader epoch int32, metadata string, committed at int64
//	             0, 2: offset int64, metadata string, committed at int64
//	             1: as 0, and then expires at int64 (written for OffsetCommit v2-4 with a
//	                retention time, which later versions cannot ask for)
//	             4: as 3, flexible, tag 0 = topic id (read, as Kafka 4.x writes it)
//	group key    2: group string
//	      value  3: protocol type string, generation int32, protocol string?, leader string?,
//	                state since int64, members [ id string, instance id string?, client id string,
//	                client host string, rebalance timeout int32, session timeout int32,
//	                subscription bytes, assignment bytes ]
//	             0: without "state since", instance id and rebalance timeout; 1: with rebalance
//	             timeout; 2: with "state since"; 4: as 3, flexible
//
// Offset values are written as version 3, which every reader of the topic knows (Burrow before
// 2025 stops at 3). The identity of the topic stands beside it in a record header, so that an
// offset of a deleted topic is never taken for one of its successor under the same name.

// Versions that are written.
const (
	offsetKeyVersion   = 1
	offsetValueVersion = 3
	groupKeyVersion    = 2
	groupValueVersion  = 3
)

// topicIDHeader is the key of the record header that holds the 16 bytes of a topic id.
const topicIDHeader = "topic.id"

// offsetKey names a committed offset.
type offsetKey struct {
	Group     string
	Topic     string
	Partition int32
}

// offsetValue is a committed offset. TopicID is zero and Expires is -1 when not known.
type offsetValue struct {
	Offset    kafkaproto.Offset
	Epoch     kafkaproto.LeaderEpoch
	Metadata  string
	Committed int64 // milliseconds since 1970
	Expires   int64 // milliseconds since 1970; -1: by the group's state
	TopicID   kafkaproto.TopicID
}

// groupValue is what is kept of a group's generation.
type groupValue struct {
	ProtocolType string
	Generation   int32
	Protocol     string // "" for null
	Leader       string // "" for null
	Since        int64  // milliseconds since 1970; -1 when not known
	Members      []memberValue
}

// memberValue is one member in a groupValue.
type memberValue struct {
	ID, Instance     string // Instance "" for null
	ClientID, Host   string
	RebalanceTimeout int32 // milliseconds
	SessionTimeout   int32 // milliseconds
	Subscription     []byte
	Assignment       []byte
}

func appendOffsetKey(b []byte, k offsetKey) []byte {
	b = appendInt16(b, offsetKeyVersion)
	b = appendString(b, k.Group)
	b = appendString(b, k.Topic)
	return appendInt32(b, k.Partition)
}

// appendOffsetValue writes version 3, or 1 when the offset has an expiry of its own.
func appendOffsetValue(b []byte, v *offsetValue) []byte {
	if v.Expires >= 0 {
		b = appendInt16(b, 1)
		b = appendInt64(b, int64(v.Offset))
		b = appendString(b, v.Metadata)
		b = appendInt64(b, v.Committed)
		return appendInt64(b, v.Expires)
	}
	b = appendInt16(b, offsetValueVersion)
	b = appendInt64(b, int64(v.Offset))
	b = appendInt32(b, int32(v.Epoch))
	b = appendString(b, v.Metadata)
	return appendInt64(b, v.Committed)
}

func appendGroupKey(b []byte, group string) []byte {
	return appendString(appendInt16(b, groupKeyVersion), group)
}

func appendGroupValue(b []byte, v *groupValue) []byte {
	b = appendInt16(b, groupValueVersion)
	b = appendString(b, v.ProtocolType)
	b = appendInt32(b, v.Generation)
	b = appendNullableString(b, v.Protocol)
	b = appendNullableString(b, v.Leader)
	b = appendInt64(b, v.Since)
	b = appendInt32(b, int32(len(v.Members)))
	for i := range v.Members {
		m := &v.Members[i]
		b = appendString(b, m.ID)
		b = appendNullableString(b, m.Instance)
		b = appendString(b, m.ClientID)
		b = appendString(b, m.Host)
		b = appendInt32(b, m.RebalanceTimeout)
		b = appendInt32(b, m.SessionTimeout)
		b = appendBytes(b, m.Subscription)
		b = appendBytes(b, m.Assignment)
	}
	return b
}

// size is about the encoded size of the value, in bytes.
func (v *groupValue) size() int {
	n := 64 + len(v.ProtocolType) + len(v.Protocol) + len(v.Leader)
	for i := range v.Members {
		m := &v.Members[i]
		n += 32 + len(m.ID) + len(m.Instance) + len(m.ClientID) + len(m.Host) +
			len(m.Subscription) + len(m.Assignment)
	}
	return n
}

// unknownVersion is a key or value that a newer broker wrote: it is stepped over, not damaged.
type unknownVersion struct {
	what    string
	version int16
}

// Error implements error.
func (u unknownVersion) Error() string {
	return fmt.Sprintf("%s of unknown version %d", u.what, u.version)
}

// key is a decoded record key: one of offsetKey and groupKey.
type key interface{ isKey() }

// groupKey names a group.
type groupKey string

func (offsetKey) isKey() {}
func (groupKey) isKey()  {}

func decodeKey(b []byte) (key, error) {
	r := reader{b: b}
	switch version := r.int16(); {
	case r.err != nil:
		return nil, r.end("record key")
	case version == 0 || version == 1:
		k := offsetKey{Group: r.string(), Topic: r.string(), Partition: r.int32()}
		return k, r.end("offset key")
	case version == 2:
		k := groupKey(r.string())
		return k, r.end("group key")
	default:
		return nil, unknownVersion{"record key", version}
	}
}

func decodeOffsetValue(b []byte) (offsetValue, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > 4) {
		return offsetValue{}, unknownVersion{"offset value", version}
	}
	r.flexible = version >= 4
	v := offsetValue{Offset: kafkaproto.Offset(r.int64()), Epoch: kafkaproto.NoEpoch, Expires: -1}
	if version >= 3 {
		v.Epoch = kafkaproto.LeaderEpoch(r.int32())
	}
	v.Metadata = r.string()
	v.Committed = r.int64()
	if version == 1 {
		v.Expires = r.int64()
	}
	r.tags(func(tag int, value []byte) {
		if tag == 0 && len(value) == len(v.TopicID) {
			v.TopicID = kafkaproto.TopicID(value)
		}
	})
	return v, r.end("offset value")
}

// minMember is the least size of a member in a group value, in bytes: four lengths of strings, the
// session timeout and two lengths of bytes, all of them one byte in a flexible version.
const minMember = 1 + 1 + 1 + 4 + 1 + 1

func decodeGroupValue(b []byte) (*groupValue, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > 4) {
		return nil, unknownVersion{"group value", version}
	}
	r.flexible = version >= 4
	v := &groupValue{ProtocolType: r.string(), Generation: r.int32(), Since: -1}
	v.Protocol, _ = r.nullableString()
	v.Leader, _ = r.nullableString()
	if version >= 2 {
		v.Since = r.int64()
	}
	if n := r.array(minMember); n > 0 {
		v.Members = make([]memberValue, 0, min(n, 1024))
		for ; n > 0 && r.err == nil; n-- {
			v.Members = append(v.Members, r.member(version))
		}
	}
	r.tags(nil)
	return v, r.end("group value")
}

func (r *reader) member(version int16) memberValue {
	var m memberValue
	m.ID = r.string()
	if version >= 3 {
		m.Instance, _ = r.nullableString()
	}
	m.ClientID = r.string()
	m.Host = r.string()
	m.RebalanceTimeout = -1
	if version >= 1 {
		m.RebalanceTimeout = r.int32()
	}
	m.SessionTimeout = r.int32()
	if m.RebalanceTimeout == -1 {
		m.RebalanceTimeout = m.SessionTimeout
	}
	m.Subscription = r.bytes()
	m.Assignment = r.bytes()
	r.tags(nil)
	return m
}
