package quorum

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/transport"
)

// What brokers say to each other about commands is one byte of form and JSON behind it:
//
//	u8 form: 1 plain, 2 deflated | {"v":1,"type":"CreateTopics","data":{"Topics":[...]}}
//
// Fields go by their names, those at their zero value are left out, unknown ones are passed over. v is
// the oldest release that can read it, and rises only when an old reader would do wrong.
const (
	wirePlain    = 1
	wireDeflated = 2
	wireVersion  = 1

	deflateFrom = 4 << 10  // bytes from which deflating is tried
	maxWire     = 32 << 20 // bytes behind a deflated one
)

// commands and results are all that travel, by name.
var (
	commands = byName[meta.Command](
		meta.CreateTopics{}, meta.DeleteTopics{}, meta.CreatePartitions{}, meta.AlterConfigs{},
		meta.AllocateProducerIDs{}, meta.InitCluster{}, meta.RegisterBroker{}, meta.ChangeBroker{},
		meta.UnregisterBroker{}, meta.AlterPartitionReassignments{}, meta.CompleteReassignment{},
		meta.GrowInternalTopics{}, meta.UpdateFeatures{},
	)
	results = byName[meta.Result](
		meta.CreateTopicsResult{}, meta.DeleteTopicsResult{}, meta.CreatePartitionsResult{},
		meta.AlterConfigsResult{}, meta.ProducerIDBlock{}, meta.ClusterInitialized{},
		meta.BrokerRegistered{}, meta.BrokerChanged{}, meta.PartitionsReassigned{},
		meta.ReassignmentCompleted{}, meta.FeaturesUpdated{},
	)
)

func byName[T any](all ...T) map[string]reflect.Type {
	m := make(map[string]reflect.Type, len(all))
	for _, v := range all {
		t := reflect.TypeOf(v)
		m[t.Name()] = t
	}
	return m
}

// outcome is how a command fared at the broker that was asked.
type outcome string

const (
	// outcomeDone: it was carried out, or refused for good; Version holds what it saw and did.
	outcomeDone outcome = "done"
	// outcomeRefused: nothing happened, as that broker is not the active controller.
	outcomeRefused outcome = "refused"
	// outcomeUnknown: it may have been carried out, or may still be.
	outcomeUnknown outcome = "unknown"
)

// answer is what a broker says to a command that was forwarded to it.
type answer struct {
	outcome outcome
	version int64 // of the image that shows what was done
	result  meta.Result
	err     error
}

// envelope is a command or an answer on its way.
type envelope struct {
	V       int             `json:"v"`
	Type    string          `json:"type,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Outcome outcome         `json:"outcome,omitempty"`
	Version int64           `json:"version,omitempty"`
	Err     *wireError      `json:"error,omitempty"`
}

// wireError is an error on its way: Kafka's code and a sentence.
type wireError struct {
	Code int16  `json:"code"`
	Text string `json:"text"`
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	text := ""
	if m := kafkaproto.Message(err); m != nil {
		text = *m
	}
	return &wireError{Code: kafkaproto.Code(err), Text: strings.ToValidUTF8(text, "?")}
}

// err is the error again: errors.Is finds the *kerr.Error of its code.
func (w *wireError) err() error {
	if w == nil {
		return nil
	}
	var k *kerr.Error
	if !errors.As(kerr.ErrorForCode(w.Code), &k) || k.Code != w.Code {
		k = &kerr.Error{Message: fmt.Sprintf("ERROR_%d", w.Code), Code: w.Code, Description: w.Text}
	}
	return &kafkaproto.Fault{Kafka: k, Text: w.Text}
}

func encodeCommand(cmd meta.Command) ([]byte, error) {
	e := envelope{V: wireVersion}
	if err := e.put(cmd); err != nil {
		return nil, err
	}
	return e.seal()
}

// decodeCommand reads a command. UNSUPPORTED_VERSION: a newer release sent what this one cannot know.
func decodeCommand(b []byte) (meta.Command, error) {
	e, err := unseal(b)
	if err != nil {
		return nil, err
	}
	v, err := take[meta.Command](e, commands)
	if err == nil && v == nil {
		err = kafkaproto.Corruptf("no command")
	}
	return v, err
}

func encodeAnswer(a answer) ([]byte, error) {
	e := envelope{V: wireVersion, Outcome: a.outcome, Version: a.version, Err: toWire(a.err)}
	if a.result != nil {
		if err := e.put(a.result); err != nil {
			return nil, err
		}
	}
	return e.seal()
}

func decodeAnswer(b []byte) (answer, error) {
	e, err := unseal(b)
	if err != nil {
		return answer{}, err
	}
	a := answer{outcome: e.Outcome, version: e.Version, err: e.Err.err()}
	switch {
	case a.outcome != outcomeDone && a.outcome != outcomeRefused && a.outcome != outcomeUnknown:
		return answer{}, kafkaproto.Corruptf("an answer with outcome %.20q", string(a.outcome))
	case a.version < 0:
		return answer{}, kafkaproto.Corruptf("an answer of version %d", a.version)
	}
	a.result, err = take[meta.Result](e, results)
	return a, err
}

func (e *envelope) put(v any) (err error) {
	rv := reflect.ValueOf(v)
	e.Type = rv.Type().Name()
	tree, err := flatten(rv)
	if err == nil {
		e.Data, err = json.Marshal(tree)
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.Type, err)
	}
	return nil
}

func take[T any](e envelope, known map[string]reflect.Type) (none T, err error) {
	if e.Type == "" {
		return none, nil
	}
	t, ok := known[e.Type]
	if !ok {
		return none, kafkaproto.Faultf(kerr.UnsupportedVersion, "%.60q is not known to this release", e.Type)
	}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return none, kafkaproto.Corruptf("%s: %w", e.Type, err)
	}
	v := reflect.New(t).Elem()
	if err := unflatten(tree, v); err != nil {
		return none, kafkaproto.Corruptf("%s: %w", e.Type, err)
	}
	return v.Interface().(T), nil
}

// seal gives the bytes, of at most transport.MaxCall.
func (e envelope) seal() ([]byte, error) {
	plain, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	out := append([]byte{wirePlain}, plain...)
	if len(plain) >= deflateFrom && len(plain) <= maxWire {
		var small bytes.Buffer
		small.WriteByte(wireDeflated)
		w, _ := flate.NewWriter(&small, flate.BestSpeed) // the level is a right one
		_, err1 := w.Write(plain)
		if err := errors.Join(err1, w.Close()); err != nil {
			return nil, err
		}
		if small.Len() < len(out) {
			out = small.Bytes()
		}
	}
	if len(out) > transport.MaxCall {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest,
			"%d bytes, and brokers exchange at most %d: divide the request", len(out), transport.MaxCall)
	}
	return out, nil
}

func unseal(b []byte) (e envelope, err error) {
	if len(b) == 0 {
		return e, kafkaproto.Corruptf("an empty message")
	}
	plain := b[1:]
	switch b[0] {
	case wirePlain:
	case wireDeflated:
		r := flate.NewReader(bytes.NewReader(plain))
		if plain, err = io.ReadAll(io.LimitReader(r, maxWire+1)); err != nil || len(plain) > maxWire {
			return e, kafkaproto.Corruptf("deflated message: more than %d bytes, or %w", maxWire, err)
		}
	default:
		return e, kafkaproto.Faultf(kerr.UnsupportedVersion, "message of form %d", b[0])
	}
	if err := json.Unmarshal(plain, &e); err != nil {
		return e, kafkaproto.Corruptf("message: %w", err)
	}
	if e.V < 1 || e.V > wireVersion {
		return e, kafkaproto.Faultf(kerr.UnsupportedVersion, "message of version %d; this release knows %d",
			e.V, wireVersion)
	}
	return e, nil
}
