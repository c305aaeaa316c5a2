package group

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

func drawOffsetValue(t *rapid.T) offsetValue {
	v := offsetValue{
		Offset:    kafkaproto.Offset(rapid.Int64().Draw(t, "offset")),
		Epoch:     kafkaproto.LeaderEpoch(rapid.Int32().Draw(t, "epoch")),
		Metadata:  rapid.String().Draw(t, "metadata"),
		Committed: rapid.Int64().Draw(t, "committed"),
		Expires:   -1,
	}
	if rapid.Bool().Draw(t, "expires") {
		v.Expires = rapid.Int64Min(0).Draw(t, "at")
		v.Epoch = kafkaproto.NoEpoch // version 1 has none
	}
	return v
}

func drawGroupValue(t *rapid.T) *groupValue {
	v := &groupValue{
		ProtocolType: rapid.String().Draw(t, "type"), Generation: rapid.Int32().Draw(t, "generation"),
		Protocol: rapid.String().Draw(t, "protocol"), Leader: rapid.String().Draw(t, "leader"),
		Since: rapid.Int64().Draw(t, "since"),
	}
	blob := func(label string) []byte {
		b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, label)
		if len(b) == 0 {
			return nil
		}
		return b
	}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		v.Members = append(v.Members, memberValue{
			ID: rapid.String().Draw(t, "id"), Instance: rapid.String().Draw(t, "instance"),
			ClientID: rapid.String().Draw(t, "client"), Host: rapid.String().Draw(t, "host"),
			RebalanceTimeout: rapid.Int32Min(0).Draw(t, "rebalance"),
			SessionTimeout:   rapid.Int32Min(0).Draw(t, "session"),
			Subscription:     blob("subscription"), Assignment: blob("assignment"),
		})
	}
	return v
}

// TestRecordsSurviveARoundTrip also reads what we write with franz-go's decoders, which were
// written from Kafka's definitions by somebody else.
func TestRecordsSurviveARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := offsetKey{
			Group: rapid.String().Draw(t, "group"), Topic: rapid.String().Draw(t, "topic"),
			Partition: rapid.Int32().Draw(t, "partition"),
		}
		kb := appendOffsetKey(nil, k)
		if got, err := decodeKey(kb); err != nil || got != k {
			t.Fatalf("offset key %v read as %v, %v", k, got, err)
		}
		var theirKey kmsg.OffsetCommitKey
		if err := theirKey.ReadFrom(kb); err != nil || theirKey.Group != k.Group ||
			theirKey.Topic != k.Topic || theirKey.Partition != k.Partition || theirKey.Version != 1 {
			t.Fatalf("offset key %v read by kmsg as %v, %v", k, theirKey, err)
		}
		v := drawOffsetValue(t)
		vb := appendOffsetValue(nil, &v)
		if got, err := decodeOffsetValue(vb); err != nil || got != v {
			t.Fatalf("offset value %v read as %v, %v", v, got, err)
		}
		var theirs kmsg.OffsetCommitValue
		if err := theirs.ReadFrom(vb); err != nil || theirs.Offset != int64(v.Offset) ||
			theirs.Metadata != v.Metadata || theirs.CommitTimestamp != v.Committed ||
			theirs.Version == 3 && theirs.LeaderEpoch != int32(v.Epoch) ||
			theirs.Version == 1 && theirs.ExpireTimestamp != v.Expires {
			t.Fatalf("offset value %v read by kmsg as %v, %v", v, theirs, err)
		}

		gk := rapid.String().Draw(t, "g")
		if got, err := decodeKey(appendGroupKey(nil, gk)); err != nil || got != groupKey(gk) {
			t.Fatalf("group key %q read as %v, %v", gk, got, err)
		}
		g := drawGroupValue(t)
		gb := appendGroupValue(nil, g)
		if got, err := decodeGroupValue(gb); err != nil || !reflect.DeepEqual(got, g) {
			t.Fatalf("group value %+v read as %+v, %v", g, got, err)
		}
		if len(gb) > g.size() {
			t.Fatalf("group value of %d bytes was taken for %d at most", len(gb), g.size())
		}
		var theirGroup kmsg.GroupMetadataValue
		if err := theirGroup.ReadFrom(gb); err != nil {
			t.Fatalf("group value read by kmsg: %v", err)
		}
		if again := theirGroup.AppendTo(nil); !bytes.Equal(again, gb) {
			t.Fatalf("kmsg writes\n%x\nwe write\n%x", again, gb)
		}
	})
}

// TestEveryVersionIsRead decodes what franz-go writes in each version that Kafka ever wrote.
func TestEveryVersionIsRead(t *testing.T) {
	id := kafkaproto.TopicID{1, 2, 3}
	for version := int16(0); version <= 4; version++ {
		theirs := kmsg.OffsetCommitValue{
			Version: version, Offset: 5, LeaderEpoch: 6, Metadata: "m", CommitTimestamp: 7,
			ExpireTimestamp: 8, TopicID: id,
		}
		want := offsetValue{Offset: 5, Epoch: -1, Metadata: "m", Committed: 7, Expires: -1}
		if version >= 3 {
			want.Epoch = 6
		}
		if version == 1 {
			want.Expires = 8
		}
		if version == 4 {
			want.TopicID = id
		}
		if got, err := decodeOffsetValue(theirs.AppendTo(nil)); err != nil || got != want {
			t.Errorf("offset value version %d: %+v, %v, want %+v", version, got, err, want)
		}

		proto, leader, instance := "range", "m1", "i1"
		group := kmsg.GroupMetadataValue{
			Version: version, ProtocolType: "consumer", Generation: 3, Protocol: &proto, Leader: &leader,
			CurrentStateTimestamp: 9, Members: []kmsg.GroupMetadataValueMember{{
				MemberID: "m1", InstanceID: &instance, ClientID: "c", ClientHost: "/h",
				RebalanceTimeoutMillis: 60, SessionTimeoutMillis: 10,
				Subscription: []byte("sub"), Assignment: []byte("ass"),
			}},
		}
		wantGroup := &groupValue{
			ProtocolType: "consumer", Generation: 3, Protocol: "range", Leader: "m1", Since: 9,
			Members: []memberValue{{
				ID: "m1", Instance: "i1", ClientID: "c", Host: "/h", RebalanceTimeout: 60,
				SessionTimeout: 10, Subscription: []byte("sub"), Assignment: []byte("ass"),
			}},
		}
		if version < 3 {
			wantGroup.Members[0].Instance = ""
		}
		if version < 2 {
			wantGroup.Since = -1
		}
		if version < 1 {
			wantGroup.Members[0].RebalanceTimeout = 10
		}
		got, err := decodeGroupValue(group.AppendTo(nil))
		if err != nil || !reflect.DeepEqual(got, wantGroup) {
			t.Errorf("group value version %d: %+v, %v, want %+v", version, got, err, wantGroup)
		}
	}
	if k, err := decodeKey((&kmsg.OffsetCommitKey{Group: "g", Topic: "t",
		Partition: 2}).AppendTo(nil)); err != nil ||
		k != (offsetKey{"g", "t", 2}) {
		t.Errorf("offset key version 0: %v, %v", k, err)
	}
}

// TestGoldenBytes pins the format: these bytes are in the logs of our users.
func TestGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"offset key", appendOffsetKey(nil, offsetKey{"grp", "top", 7}), "0001" + "0003677270" +
			"0003746f70" + "00000007"},
		{"offset value", appendOffsetValue(nil, &offsetValue{Offset: 66, Epoch: 3, Metadata: "md",
			Committed: 258, Expires: -1}),
			"0003" + "0000000000000042" + "00000003" + "00026d64" + "0000000000000102"},
		{"offset value that expires", appendOffsetValue(nil, &offsetValue{Offset: 66, Epoch: 3,
			Metadata: "md", Committed: 258, Expires: 259}),
			"0001" + "0000000000000042" + "00026d64" + "0000000000000102" + "0000000000000103"},
		{"group key", appendGroupKey(nil, "grp"), "0002" + "0003677270"},
		{"empty group", appendGroupValue(nil, &groupValue{ProtocolType: "consumer", Generation: 2,
			Since: 5}),
			"0003" + "0008636f6e73756d6572" + "00000002" + "ffff" + "ffff" + "0000000000000005" +
				"00000000"},
		{"group", appendGroupValue(nil, &groupValue{
			ProtocolType: "consumer", Generation: 2, Protocol: "range", Leader: "m", Since: 5,
			Members: []memberValue{{
				ID: "m", Instance: "i", ClientID: "c", Host: "/h", RebalanceTimeout: 60, SessionTimeout: 10,
				Subscription: []byte{1}, Assignment: []byte{2, 3},
			}},
		}), "0003" + "0008636f6e73756d6572" + "00000002" + "000572616e6765" + "00016d" +
			"0000000000000005" + "00000001" +
			"00016d" + "000169" + "000163" + "00022f68" + "0000003c" + "0000000a" + "0000000101" +
			"000000020203"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestUnknownVersionsAreNotDamage(t *testing.T) {
	for name, err := range map[string]error{
		"key":          second(decodeKey([]byte{0, 3, 0, 1, 'g'})),
		"offset value": second(decodeOffsetValue([]byte{0, 5})),
		"group value":  second(decodeGroupValue([]byte{0, 5})),
		"negative":     second(decodeGroupValue([]byte{255, 255})),
	} {
		if !errors.As(err, &unknownVersion{}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"empty key":    second(decodeKey(nil)),
		"short key":    second(decodeKey([]byte{0, 2, 0, 9, 'g'})),
		"trailing":     second(decodeKey([]byte{0, 2, 0, 1, 'g', 0})),
		"null group":   second(decodeKey([]byte{0, 2, 255, 255})),
		"empty offset": second(decodeOffsetValue(nil)),
		"empty group":  second(decodeGroupValue(nil)),
	} {
		if err == nil || errors.As(err, &unknownVersion{}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestPartitionOf(t *testing.T) {
	// The hashes are Java's: "polygenelubricants" is the well-known string that hashes to
	// Integer.MIN_VALUE, whose sign Kafka drops to 0.
	for group, want := range map[string]int32{
		"":                   0,
		"a":                  97 % 50,
		"g":                  103 % 50,
		"hello":              99162322 % 50,
		"polygenelubricants": 0,
		"console-consumer-1": 1,
		"\U0001F600":         1772899 % 50, // two UTF-16 units: 0xd83d*31 + 0xde00
		"zzzzzz":             685785664 % 50,
	} {
		if group == "console-consumer-1" || group == "zzzzzz" {
			want = javaHash(group) % 50
		}
		if got := PartitionOf(group, 50); got != want {
			t.Errorf("%q: partition %d, want %d", group, got, want)
		}
	}
}

// javaHash is the hash of an ASCII string, written from its definition.
func javaHash(s string) int32 {
	h := int64(0)
	for i := range len(s) {
		h = (31*h + int64(s[i])) & 0xffffffff
	}
	v := int32(uint32(h))
	if v < 0 {
		v = -v
	}
	return v
}

func TestJavaLen(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "é": 1, "\U0001F600": 2, "\xff": 1} {
		if got := javaLen(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(appendOffsetKey(nil, offsetKey{"g", "t", 1}), appendOffsetValue(nil,
		&offsetValue{Offset: 1, Expires: -1}))
	f.Add(appendOffsetKey(nil, offsetKey{"g", "t", 1}), appendOffsetValue(nil,
		&offsetValue{Offset: 1, Expires: 1}))
	f.Add(appendGroupKey(nil, "g"), appendGroupValue(nil, &groupValue{ProtocolType: "consumer",
		Protocol: "range",
		Members:  []memberValue{{ID: "m", Subscription: subscribe("t")}}}))
	f.Add((&kmsg.OffsetCommitKey{Group: "g", Topic: "t"}).AppendTo(nil),
		(&kmsg.OffsetCommitValue{Version: 4, TopicID: [16]byte{1}}).AppendTo(nil))
	f.Add(appendGroupKey(nil, "g"), (&kmsg.GroupMetadataValue{Version: 4,
		Members: []kmsg.GroupMetadataValueMember{{}}}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		key, err := decodeKey(k)
		if err != nil {
			return
		}
		switch key := key.(type) {
		case offsetKey:
			o, err := decodeOffsetValue(v)
			if err != nil {
				return
			}
			again, err := decodeOffsetValue(appendOffsetValue(nil, &o))
			if err != nil {
				t.Fatalf("%+v is not read again: %v", o, err)
			}
			o.TopicID = kafkaproto.TopicID{} // stands in a header
			if o.Expires < 0 {
				o.Expires = -1
			}
			if o.Expires >= 0 {
				o.Epoch = -1
			}
			if again != o {
				t.Fatalf("%+v is read again as %+v", o, again)
			}
		case groupKey:
			g, err := decodeGroupValue(v)
			if err != nil {
				return
			}
			again, err := decodeGroupValue(appendGroupValue(nil, g))
			if err != nil || !reflect.DeepEqual(again, g) {
				t.Fatalf("%+v is read again as %+v, %v", g, again, err)
			}
			// Whatever a log says, a machine takes it, and its members are run out in the end.
			replayAnything(t, string(key), g)
		}
	})
}

func FuzzSubscription(f *testing.F) {
	f.Add(subscribe("a", "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, err := subscriptionTopics(b)
		if err == nil && len(topics)*2 > len(b) {
			t.Fatalf("%d topics from %d bytes", len(topics), len(b))
		}
	})
}
