package diff

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// environment is what one run of one case knows: its fresh names, what it captured from answers, and
// the symbols that stand for ids in the recorded answers.
type environment struct {
	values  map[string]any
	names   []string // fresh names in the order made, for turning them back into symbols
	started time.Time
	offsets map[int64]bool // what the case added to $now, to recognise times it made
	symbols map[string]string
	counts  map[string]int
	broker  BrokerIdentity
}

// BrokerIdentity is what differs between two brokers by its nature and is replaced by a symbol.
type BrokerIdentity struct {
	Host      string
	Port      int32
	ClusterID string
}

func newEnvironment(id BrokerIdentity, now time.Time) *environment {
	return &environment{
		values: map[string]any{}, offsets: map[int64]bool{0: true}, started: now,
		symbols: map[string]string{}, counts: map[string]int{}, broker: id,
	}
}

// addName makes a fresh name known under a variable.
func (e *environment) addName(variable, name string) {
	if _, known := e.values[variable]; !known {
		e.names = append(e.names, variable)
	}
	e.values[variable] = name
}

// resolve returns what a reference stands for, plus add when it is a number.
func (e *environment) resolve(name string, add int64) (any, error) {
	if name == "now" {
		e.offsets[add] = true
		return e.started.UnixMilli() + add, nil
	}
	v, ok := e.values[name]
	if !ok {
		return nil, fmt.Errorf("$%s is not set", name)
	}
	if add == 0 {
		return v, nil
	}
	n, ok := v.(int64)
	if !ok {
		return nil, fmt.Errorf("$%s%+d: not a number", name, add)
	}
	return n + add, nil
}

var embedded = regexp.MustCompile(`\$\{[a-zA-Z0-9_.]+\}`)

// interpolate replaces ${name} inside a string.
func (e *environment) interpolate(text string) (string, error) {
	var failed error
	out := embedded.ReplaceAllStringFunc(text, func(m string) string {
		v, err := e.resolve(m[2:len(m)-1], 0)
		if err != nil {
			failed = err
		}
		return fmt.Sprint(v)
	})
	return out, failed
}

// call evaluates the functions of the case language.
func (e *environment) call(name string, argument any) (any, error) {
	o, _ := argument.(object)
	switch name {
	case "batch":
		return buildBatch(e, o)
	case "hex":
		return hex.DecodeString(strings.ReplaceAll(fmt.Sprint(argument), " ", ""))
	case "cat":
		return concatenate(argument)
	case "rep":
		return bytes.Repeat([]byte(fmt.Sprint(o.mustGet("of"))), int(o.int("n", 0))), nil
	case "str":
		return strings.Repeat(fmt.Sprint(o.mustGet("of")), int(o.int("n", 0))), nil
	case "cut":
		return cut(o)
	case "set":
		return overwrite(o)
	case "req":
		return rawRequest(o)
	case "subscription":
		return subscription(o)
	case "assignment":
		return assignment(o)
	case "join":
		parts, err := concatenate(argument)
		return string(parts), err
	}
	return nil, fmt.Errorf("no function %s", name)
}

// toBytes turns a value into bytes: text as it is, numbers in decimal, null to nil.
func toBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	case int64:
		return fmt.Append(nil, v), nil
	case uuid:
		return v[:], nil
	}
	return nil, fmt.Errorf("%v is not bytes", v)
}

func concatenate(argument any) ([]byte, error) {
	list, ok := argument.([]any)
	if !ok {
		return nil, fmt.Errorf("cat needs a list")
	}
	out := []byte{}
	for _, item := range list {
		b, err := toBytes(item)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

// cut keeps the first n bytes of a value, or all but the last -n.
func cut(o object) ([]byte, error) {
	b, err := toBytes(o.mustGet("of"))
	if err != nil {
		return nil, err
	}
	n := int(o.int("n", 0))
	if n < 0 {
		n += len(b)
	}
	if n < 0 || n > len(b) {
		return nil, fmt.Errorf("cut to %d of %d bytes", n, len(b))
	}
	return b[:n:n], nil
}

// overwrite replaces the bytes of a value from at on; a negative at counts from the end.
func overwrite(o object) ([]byte, error) {
	b, err := toBytes(o.mustGet("of"))
	if err != nil {
		return nil, err
	}
	patch, err := toBytes(o.mustGet("to"))
	if err != nil {
		return nil, err
	}
	at := int(o.int("at", 0))
	if at < 0 {
		at += len(b)
	}
	if at < 0 || at+len(patch) > len(b) {
		return nil, fmt.Errorf("set %d bytes at %d of %d", len(patch), at, len(b))
	}
	out := bytes.Clone(b)
	copy(out[at:], patch)
	return out, nil
}

// rawRequest encodes a whole request without its size prefix, for cases that damage it.
func rawRequest(o object) ([]byte, error) {
	name, _ := o.mustGet("api").(string)
	body, _ := o.mustGet("body").(object)
	request, err := newRequest(name, int16(o.int("v", 0)), body)
	if err != nil {
		return nil, err
	}
	client, hasClient := o.get("client")
	if !hasClient {
		client = defaultClient
	}
	var id *string
	if s, ok := client.(string); ok {
		id = &s
	}
	return encodeRequest(request, int32(o.int("corr", rawCorrelation)), id), nil
}

// stringList turns an evaluated list into strings.
func stringList(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

// subscription encodes a consumer's JoinGroup metadata.
func subscription(o object) ([]byte, error) {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = int16(o.int("v", 0))
	m.Topics = stringList(o.mustGet("topics"))
	if data, err := toBytes(o.mustGet("data")); err == nil {
		m.UserData = data
	}
	return m.AppendTo(nil), nil
}

// assignment encodes a consumer's SyncGroup assignment of partition 0 of each topic.
func assignment(o object) ([]byte, error) {
	a := kmsg.NewConsumerMemberAssignment()
	for _, topic := range stringList(o.mustGet("topics")) {
		t := kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		a.Topics = append(a.Topics, t)
	}
	return a.AppendTo(nil), nil
}
