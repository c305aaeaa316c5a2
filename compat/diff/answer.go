package diff

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// field is one value of an answer as recorded. Hint is shown in the golden file and never compared:
// the wording of messages is the broker's own.
type field struct {
	name, value, hint string
}

// group is one struct of an answer: its path from the top ("" for the top itself) and its values.
type group struct {
	path   string
	fields []field
}

// keyFields names, for the elements of lists whose order means nothing, the fields that identify an
// element: the first one set is used. Elements of other lists go by their position, so that a
// difference in order shows.
var keyFields = map[string][]string{
	"ApiVersionsResponseApiKey":                  {"ApiKey"},
	"ApiVersionsResponseSupportedFeature":        {"Name"},
	"ApiVersionsResponseFinalizedFeature":        {"Name"},
	"MetadataResponseBroker":                     {"NodeID"},
	"MetadataResponseTopic":                      {"Topic", "TopicID"},
	"MetadataResponseTopicPartition":             {"Partition"},
	"DescribeClusterResponseBroker":              {"NodeID"},
	"DescribeConfigsResponseResource":            {"ResourceName"},
	"DescribeConfigsResponseResourceConfig":      {"Name"},
	"AlterConfigsResponseResource":               {"ResourceName"},
	"IncrementalAlterConfigsResponseResource":    {"ResourceName"},
	"CreateTopicsResponseTopic":                  {"Topic"},
	"CreateTopicsResponseTopicConfig":            {"Name"},
	"DeleteTopicsResponseTopic":                  {"Topic", "TopicID"},
	"CreatePartitionsResponseTopic":              {"Topic"},
	"DeleteRecordsResponseTopic":                 {"Topic"},
	"DeleteRecordsResponseTopicPartition":        {"Partition"},
	"ProduceResponseTopic":                       {"Topic", "TopicID"},
	"ProduceResponseTopicPartition":              {"Partition"},
	"ListOffsetsResponseTopic":                   {"Topic"},
	"ListOffsetsResponseTopicPartition":          {"Partition"},
	"OffsetForLeaderEpochResponseTopic":          {"Topic"},
	"OffsetForLeaderEpochResponseTopicPartition": {"Partition"},
	"OffsetCommitResponseTopic":                  {"Topic", "TopicID"},
	"OffsetCommitResponseTopicPartition":         {"Partition"},
	"OffsetFetchResponseTopic":                   {"Topic"},
	"OffsetFetchResponseTopicPartition":          {"Partition"},
	"OffsetFetchResponseGroup":                   {"Group"},
	"OffsetFetchResponseGroupTopic":              {"Topic", "TopicID"},
	"OffsetFetchResponseGroupTopicPartition":     {"Partition"},
	"OffsetDeleteResponseTopic":                  {"Topic"},
	"OffsetDeleteResponseTopicPartition":         {"Partition"},
	"ListGroupsResponseGroup":                    {"Group"},
	"DescribeGroupsResponseGroup":                {"Group"},
	"DescribeGroupsResponseGroupMember":          {"MemberID"},
	"DeleteGroupsResponseGroup":                  {"Group"},
	"JoinGroupResponseMember":                    {"MemberID"},
}

// symbolFields are numbers that each broker chooses for itself. They become $name1, $name2 … in the
// order in which a case first sees them, so that "the same again" and "another one" still compare.
// The value in the table is the one number that is shown as it is because it means "none".
var symbolFields = map[string]struct {
	symbol string
	none   int64
}{
	"ProducerID":             {"pid", -1},
	"SessionID":              {"session", 0},
	"FinalizedFeaturesEpoch": {"features", -1},
	"LeaderEpoch":            {"epoch", -1},
	"PartitionLeaderEpoch":   {"epoch", -1},
	"DivergingEpoch.Epoch":   {"epoch", -1},
}

// timeFields are milliseconds since 1970.
var timeFields = map[string]bool{
	"Timestamp": true, "LogAppendTime": true, "FirstTimestamp": true, "MaxTimestamp": true,
}

// textFields are sentences for people.
var textFields = map[string]bool{"ErrorMessage": true, "Documentation": true}

// dump turns an answer into groups.
func (e *environment) dump(response kmsg.Response) []group {
	return e.dumpStruct(nil, "", reflect.ValueOf(response).Elem())
}

func (e *environment) dumpStruct(groups []group, path string, v reflect.Value) []group {
	g := group{path: path}
	at := len(groups)
	groups = append(groups, g)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		sub := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case name == "Version":
		case name == "UnknownTags":
			if tags := f.Addr().Interface().(*kmsg.Tags); tags.Len() > 0 {
				g.fields = append(g.fields, field{name: name, value: strconv.Itoa(tags.Len())})
			}
		case name == "RecordBatches":
			groups = e.dumpBatches(groups, sub, f.Bytes(), &g)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil():
			groups = e.dumpStruct(groups, sub, f.Elem())
		case f.Kind() == reflect.Struct:
			groups = e.dumpStruct(groups, sub, f)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			if f.Len() == 0 {
				g.fields = append(g.fields, field{name: name, value: emptyList(f)})
			}
			groups = e.dumpList(groups, sub, f)
		default:
			g.fields = append(g.fields, e.scalar(v, name, f))
		}
	}
	groups[at] = g
	return groups
}

func emptyList(f reflect.Value) string {
	if f.IsNil() {
		return "null"
	}
	return "[]"
}

func (e *environment) dumpList(groups []group, path string, list reflect.Value) []group {
	names, byKey := keyFields[list.Type().Elem().Name()]
	type element struct {
		key string
		v   reflect.Value
	}
	elements := make([]element, list.Len())
	for i := range elements {
		elements[i] = element{strconv.Itoa(i), list.Index(i)}
	}
	if byKey {
		// Sorted by the raw text first, so that symbols are given out in an order that does not
		// depend on the broker's.
		slices.SortStableFunc(elements, func(a, b element) int {
			return strings.Compare(rawKey(a.v, names), rawKey(b.v, names))
		})
		seen := map[string]int{}
		for i := range elements {
			key := e.elementKey(elements[i].v, names)
			if seen[key]++; seen[key] > 1 {
				key = fmt.Sprintf("%s#%d", key, seen[key])
			}
			elements[i].key = key
		}
		if list.Type().Elem().Name() != "ApiVersionsResponseApiKey" {
			slices.SortStableFunc(elements, func(a, b element) int { return strings.Compare(a.key, b.key) })
		}
	}
	for _, el := range elements {
		groups = e.dumpStruct(groups, fmt.Sprintf("%s[%s]", path, el.key), el.v)
	}
	return groups
}

// keyValue is the first identifying field that is set.
func keyValue(v reflect.Value, names []string) (string, reflect.Value) {
	for _, name := range names {
		f := v.FieldByName(name)
		if f.Kind() == reflect.Pointer && f.IsNil() || f.Kind() == reflect.Array && f.IsZero() ||
			f.Kind() == reflect.String && f.Len() == 0 {
			continue
		}
		return name, reflect.Indirect(f)
	}
	return "", reflect.Value{}
}

func rawKey(v reflect.Value, names []string) string {
	_, f := keyValue(v, names)
	if !f.IsValid() {
		return ""
	}
	return fmt.Sprint(f.Interface())
}

func (e *environment) elementKey(v reflect.Value, names []string) string {
	name, f := keyValue(v, names)
	if !f.IsValid() {
		return `""`
	}
	return e.scalar(v, name, f).value
}

// scalar formats one value of a struct.
func (e *environment) scalar(owner reflect.Value, name string, v reflect.Value) field {
	out := field{name: name}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			out.value = "null"
			return out
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return e.text(name, v.String())
	case reflect.Array:
		out.value = e.topicID(uuid(v.Interface().([16]byte)))
	case reflect.Slice:
		out.value = e.list(name, v)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		out.value = e.number(owner, name, v.Int())
	default:
		out.value = fmt.Sprint(v.Interface())
	}
	return out
}

func (e *environment) text(name, text string) field {
	out := field{name: name, value: quoteWord(e.symbolise(text))}
	if textFields[name] && text != "" {
		out.value = "$text"
		if name != "Documentation" {
			out.hint = e.symbolise(text)
		}
	}
	return out
}

func (e *environment) list(name string, v reflect.Value) string {
	if v.IsNil() {
		return "null"
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return strconv.QuoteToASCII(e.symbolise(string(v.Bytes())))
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = e.scalar(reflect.Value{}, name, v.Index(i)).value
	}
	return "[" + strings.Join(items, ",") + "]"
}

func (e *environment) number(owner reflect.Value, name string, n int64) string {
	if name == "ErrorCode" {
		if err := kerr.TypedErrorForCode(int16(n)); err != nil {
			return fmt.Sprintf("%d:%s", n, err.Message)
		}
	}
	if timeFields[name] {
		return e.time(n)
	}
	if name == "Port" && int32(n) == e.broker.Port {
		return "$port"
	}
	if owner.IsValid() && strings.HasPrefix(owner.Type().Name(), "OffsetFetch") {
		return strconv.FormatInt(n, 10) // the epoch of a committed offset is the client's own number
	}
	s, ok := symbolFields[name]
	if !ok && name == "Epoch" && owner.IsValid() && strings.HasSuffix(owner.Type().Name(), "DivergingEpoch") {
		s, ok = symbolFields["DivergingEpoch.Epoch"]
	}
	if ok && n != s.none {
		return e.symbol(s.symbol, strconv.FormatInt(n, 10))
	}
	return strconv.FormatInt(n, 10)
}

// time shows a time that the case itself made as the sum it was made by, another one of the last
// minutes as $time, and anything else as the number it is.
func (e *environment) time(n int64) string {
	d := n - e.started.UnixMilli()
	if e.offsets[d] {
		if d == 0 {
			return "$now"
		}
		return fmt.Sprintf("$now%+d", d)
	}
	const minutes = 60_000
	if d > -10*minutes && d < 10*minutes {
		return "$time"
	}
	return strconv.FormatInt(n, 10)
}

// symbol returns the symbol of a value, a new one when it is first seen.
func (e *environment) symbol(kind, value string) string {
	key := kind + "\x00" + value
	if _, ok := e.symbols[key]; !ok {
		e.counts[kind]++
		e.symbols[key] = fmt.Sprintf("$%s%d", kind, e.counts[kind])
	}
	return e.symbols[key]
}

func (e *environment) topicID(id uuid) string {
	if id == (uuid{}) {
		return "0"
	}
	for _, name := range e.names {
		if e.values[name+".id"] == id {
			return "$" + name + ".id"
		}
	}
	return e.symbol("uuid", hex.EncodeToString(id[:]))
}

var (
	uuidText   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	loopback   = regexp.MustCompile(`127\.0\.0\.1:[0-9]{4,5}`)
	dataDir    = regexp.MustCompile(`/[^ ,]*/data\b`)
	base64Text = regexp.MustCompile(`[A-Za-z0-9_-]{22}`)
)

// symbolise replaces what is the broker's or this run's own inside a text: fresh names, generated
// ids, addresses, the data directory and the cluster id.
func (e *environment) symbolise(text string) string {
	for _, name := range slices.Backward(e.names) {
		if s, ok := e.values[name].(string); ok && s != "" {
			text = strings.ReplaceAll(text, s, "$"+name)
		}
	}
	if e.broker.ClusterID != "" {
		text = strings.ReplaceAll(text, e.broker.ClusterID, "$cluster")
	}
	text = strings.ReplaceAll(text, fmt.Sprintf("%s:%d", e.broker.Host, e.broker.Port), "$host:$port")
	text = loopback.ReplaceAllString(text, "$$host:$$other")
	text = dataDir.ReplaceAllString(text, "$$data")
	text = uuidText.ReplaceAllStringFunc(text, func(id string) string {
		return e.symbol("uuid", strings.ReplaceAll(id, "-", ""))
	})
	return base64Text.ReplaceAllStringFunc(text, e.symboliseTopicID)
}

// symboliseTopicID replaces a known topic id in the 22 characters of Kafka's text form.
func (e *environment) symboliseTopicID(id string) string {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) != 16 {
		return id
	}
	for _, name := range e.names {
		if e.values[name+".id"] == uuid(raw) {
			return "$" + name + ".id"
		}
	}
	return id
}

// dumpBatches decodes the records of a Fetch answer. What is left behind the last whole batch is
// legal and shown by its length.
func (e *environment) dumpBatches(groups []group, path string, raw []byte, parent *group) []group {
	if len(raw) == 0 {
		parent.fields = append(parent.fields, field{name: "RecordBatches", value: emptyList(reflect.ValueOf(raw))})
		return groups
	}
	for i := 0; len(raw) > 0; i++ {
		size := 0
		if len(raw) >= batchHeaderBytes {
			size = 12 + int(int32(binary.BigEndian.Uint32(raw[8:])))
		}
		if size < batchHeaderBytes || size > len(raw) {
			parent.fields = append(parent.fields, field{name: "Tail", value: "cut", hint: fmt.Sprintf("%d bytes", len(raw))})
			break
		}
		groups = append(groups, group{path: fmt.Sprintf("%s[%d]", path, i), fields: e.dumpBatch(raw[:size])})
		raw = raw[size:]
	}
	return groups
}

func (e *environment) dumpBatch(raw []byte) []field {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		return []field{{name: "Batch", value: "bad", hint: err.Error()}}
	}
	owner := reflect.ValueOf(b)
	add := func(fields []field, name string, v int64) []field {
		return append(fields, field{name: name, value: e.number(owner, name, v)})
	}
	fields := add(nil, "FirstOffset", b.FirstOffset)
	fields = add(fields, "PartitionLeaderEpoch", int64(b.PartitionLeaderEpoch))
	fields = add(fields, "Magic", int64(b.Magic))
	crc := "good"
	if uint32(b.CRC) != crc32.Checksum(raw[batchCRCStart:], castagnoli) {
		crc = "bad"
	}
	fields = append(fields, field{name: "CRC", value: crc})
	fields = add(fields, "Attributes", int64(b.Attributes))
	fields = add(fields, "LastOffsetDelta", int64(b.LastOffsetDelta))
	fields = add(fields, "FirstTimestamp", b.FirstTimestamp)
	fields = add(fields, "MaxTimestamp", b.MaxTimestamp)
	fields = add(fields, "ProducerID", b.ProducerID)
	fields = add(fields, "ProducerEpoch", int64(b.ProducerEpoch))
	fields = add(fields, "FirstSequence", int64(b.FirstSequence))
	fields = add(fields, "NumRecords", int64(b.NumRecords))
	return append(fields, field{name: "Records", value: e.payload(b)})
}

// payload shows a batch's records as bytes after decompression: quoted when short, else by length
// and checksum.
func (e *environment) payload(b kmsg.RecordBatch) string {
	data, err := decompress(b.Attributes&attributeCodec, b.Records)
	if err != nil {
		return "undecodable"
	}
	const short = 120
	if len(data) > short {
		return fmt.Sprintf("%d-bytes-crc-%08x", len(data), crc32.Checksum(data, castagnoli))
	}
	return strconv.QuoteToASCII(string(bytes.Clone(data)))
}
