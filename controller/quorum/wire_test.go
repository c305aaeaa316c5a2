package quorum

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// fill gives a value of random content.
func fill(rng *rand.Rand, v reflect.Value) {
	if v.Type() == errorType {
		if rng.IntN(2) == 0 {
			v.Set(reflect.ValueOf(kafkaproto.Faultf(kerr.TopicAlreadyExists, "sentence %d", rng.IntN(100))))
		}
		return
	}
	if rng.IntN(5) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(rng, v.Field(i))
		}
	case reflect.Slice:
		n := rng.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(rng, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rng.IntN(3) {
			elem := reflect.New(v.Type().Elem()).Elem()
			fill(rng, elem)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key", rng.IntN(9))), elem)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.String:
		v.SetString([]string{"", "a", "ä\u2028<>&", strings.Repeat("x", 3000)}[rng.IntN(4)])
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() {
			v.SetInt(int64(rng.Uint64()) >> (64 - v.Type().Bits()))
		} else {
			v.SetUint(rng.Uint64() >> (64 - v.Type().Bits()))
		}
	}
}

// TestWireRoundTrip: every command and result comes out as it went in, nil slices as nil.
func TestWireRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		for name, typ := range commands {
			v := reflect.New(typ).Elem()
			fill(rng, v)
			want := v.Interface().(meta.Command)
			b, err := encodeCommand(want)
			if err != nil {
				t.Fatal(name, err)
			}
			got, err := decodeCommand(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %.2000v, %v\nwant %.2000v", name, got, err, want)
			}
		}
		for name, typ := range results {
			v := reflect.New(typ).Elem()
			fill(rng, v)
			want := answer{outcome: outcomeDone, version: rng.Int64(), result: v.Interface().(meta.Result)}
			b, err := encodeAnswer(want)
			if err != nil {
				t.Fatal(name, err)
			}
			got, err := decodeAnswer(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %.2000v, %v\nwant %.2000v", name, got, err, want)
			}
		}
	}
}

// TestWireKnowsAll: whoever adds a command or a result finds out that it must travel.
func TestWireKnowsAll(t *testing.T) {
	pkgs, err := parser.ParseDir(token.NewFileSet(), "../meta", nil, 0) //nolint:staticcheck // one package, no build tags
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, p := range pkgs {
		for _, f := range p.Files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil || fn.Name.Name != "command" && fn.Name.Name != "result" {
					continue
				}
				name, known := fmt.Sprint(fn.Recv.List[0].Type), commands
				if found[fn.Name.Name]++; fn.Name.Name == "result" {
					known = results
				}
				if known[name] == nil {
					t.Errorf("meta.%s is no %s that travels", name, fn.Name.Name)
				}
			}
		}
	}
	if found["command"] != len(commands) || found["result"] != len(results) {
		t.Errorf("%v, but %d and %d travel", found, len(commands), len(results))
	}
}

func TestWireErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{kafkaproto.Faultf(kerr.TopicAlreadyExists, "topic x"), kerr.TopicAlreadyExists, "topic x"},
		{fmt.Errorf("wrapped: %w", kafkaproto.Faultf(kerr.NotController, "elsewhere")), kerr.NotController, "elsewhere"},
		{errors.New("disk"), kerr.KafkaStorageError, "disk"},
	} {
		b, err := encodeAnswer(answer{outcome: outcomeDone, version: 7, err: c.err})
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAnswer(b)
		if err != nil || !errors.Is(got.err, c.is) || *kafkaproto.Message(got.err) != c.text || got.version != 7 {
			t.Errorf("%v came as %v, %v", c.err, got.err, err)
		}
	}
	// A code that only a newer release knows keeps its number.
	if err := (&wireError{Code: 3000, Text: "new"}).err(); kafkaproto.Code(err) != 3000 {
		t.Error(err)
	}
}

// TestWireForms: new fields are passed over, what cannot be known is refused as such, sizes are bounded.
func TestWireForms(t *testing.T) {
	for in, want := range map[string]string{
		"\x01" + `{"v":1,"type":"InitCluster","data":{"ClusterID":"x","Later":[1,{}]},"more":2}`: "",
		"\x01" + `{"v":1,"type":"Later","data":{}}`:                                              "UNSUPPORTED_VERSION",
		"\x01" + `{"v":2,"type":"InitCluster","data":{}}`:                                        "UNSUPPORTED_VERSION",
		"\x07" + `{}`: "UNSUPPORTED_VERSION",
		"\x01" + `{"v":1,"type":"InitCluster","data":{"ClusterID":5}}`:             "json.Number where string",
		"\x01" + `{"v":1,"type":"AllocateProducerIDs","data":{"Node":5000000000}}`: "out of range",
		"\x01" + `{"v":1,"type":"DeleteTopics","data":{"Topics":[{"ID":"AAAA"}]}}`: "TopicID is wanted",
		"\x01" + `{"v":1}`: "no command",
		"\x02" + "\x00":    "deflated",
		"":                 "empty",
	} {
		_, err := decodeCommand([]byte(in))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	var big meta.CreateTopics
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30_000 {
		big.Topics = append(big.Topics, meta.NewTopic{Name: fmt.Sprintf("topic-%d", rng.Uint64()), Partitions: 1})
	}
	if b, err := encodeCommand(big); err != nil || b[0] != wireDeflated {
		t.Errorf("30,000 topics: %v", err)
	}
	for range 200_000 {
		big.Topics = append(big.Topics, meta.NewTopic{Name: fmt.Sprintf("topic-%d", rng.Uint64()), Partitions: 1})
	}
	if _, err := encodeCommand(big); !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("230,000 topics: %v", err)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, cmd := range []meta.Command{
		meta.CreateTopics{Topics: []meta.NewTopic{{Name: "a", Assignment: []meta.Assignment{{Replicas: []kafkaproto.NodeID{1, 2}}}}}},
		meta.DeleteTopics{Topics: []meta.TopicRef{{ID: kafkaproto.TopicID{1}}}},
		meta.RegisterBroker{ID: -1, Directory: "d"},
	} {
		b, err := encodeCommand(cmd)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cmd, err := decodeCommand(b)
		if err != nil {
			return
		}
		again, err := encodeCommand(cmd)
		if err != nil {
			return // grew above the bound
		}
		if back, err := decodeCommand(again); err != nil || !reflect.DeepEqual(back, cmd) {
			t.Errorf("%+v became %+v, %v", cmd, back, err)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	b, err := encodeAnswer(answer{outcome: outcomeDone, version: 3, err: kerr.NotController,
		result: meta.DeleteTopicsResult{Topics: []meta.DeletedTopic{{Name: "a", Err: kerr.InvalidTopicException}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnswer(b)
		if err != nil {
			return
		}
		if _, err := encodeAnswer(a); err != nil && !errors.Is(err, kerr.InvalidRequest) {
			t.Error(err)
		}
	})
}
