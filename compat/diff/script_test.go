package diff

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLiterals(t *testing.T) {
	env := newEnvironment(BrokerIdentity{}, time.UnixMilli(1_000_000))
	env.addName("t", "topic-1")
	env.values["n"] = int64(7)
	for _, c := range []struct {
		text string
		want any
	}{
		{`5`, int64(5)}, {`-1`, int64(-1)}, {`null`, nil}, {`true`, true}, {`word-with.dots`, "word-with.dots"},
		{`"a b"`, "a b"}, {`$t`, "topic-1"}, {`"x-${t}"`, "x-topic-1"}, {`$n+1`, int64(8)}, {`$n-8`, int64(-1)},
		{`$now-1000`, int64(999_000)}, {`[1 2, 3]`, []any{int64(1), int64(2), int64(3)}},
		{`hex"00 ff"`, []byte{0, 0xff}}, {`cat[a hex"00" b]`, []byte("a\x00b")}, {`str{of:ab n:2}`, "abab"},
		{`cut{of:abcdef n:-2}`, []byte("abcd")}, {`set{of:abcdef at:-2 to:XY}`, []byte("abcdXY")},
	} {
		v, err := parseLiteral(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got, err := v.eval(env)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is %#v (%v), want %#v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{``, `{a 1}`, `[1`, `{a:1`, `"x`, `1 2`, `$`, `$n+x`} {
		if _, err := parseLiteral(bad); err == nil {
			t.Errorf("%q parses", bad)
		}
	}
	for _, bad := range []string{`$missing`, `nofunction{a:1}`, `$t+1`, `cut{of:abc n:9}`, `hex"0"`} {
		v, err := parseLiteral(bad)
		if err != nil {
			t.Fatalf("%s: %v", bad, err)
		}
		if _, err := v.eval(env); err == nil {
			t.Errorf("%s has a value", bad)
		}
	}
}

func TestScriptExpandsLoopsAndDefinitions(t *testing.T) {
	s, err := parseScript("f", `
# a comment
broker a=1 b=2
def topic Topic:$t
case one
each v 1..3
each k x "y z"
topic t partitions=2
send Metadata v%v until=A:%v {Topics:[{@topic}]  # trailing
  AllowAutoTopicCreation:false}
case two
restart
`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range s.cases {
		names = append(names, c.name)
	}
	want := []string{"f/one/v1/kx", "f/one/v1/ky+z", "f/one/v2/kx", "f/one/v2/ky+z", "f/one/v3/kx", "f/one/v3/ky+z", "f/two"}
	if !slices.Equal(names, want) || !slices.Equal(s.broker, []string{"a=1", "b=2"}) {
		t.Fatalf("cases %q, broker %q", names, s.broker)
	}
	send := s.cases[2].steps[1]
	if send.words[1] != "v2" || send.modifiers["until"] != "A:2" || len(send.value.keys) != 2 {
		t.Errorf("send is %+v", send)
	}
	if s.cases[0].alone || !s.cases[6].alone {
		t.Error("only the case that restarts the broker is alone")
	}
	for _, bad := range []string{"send Metadata v1 {}", "case a\nnonsense", "case a\nsend Metadata v1 {", "case a\nsend Metadata v1 {}}", "case a\ncase a", "each v 1"} {
		if _, err := parseScript("f", bad); err == nil {
			t.Errorf("%q parses", bad)
		}
	}
}

func TestRequestFieldsAreChecked(t *testing.T) {
	body := object{keys: []string{"Topics"}, values: []any{[]any{object{keys: []string{"topic"}, values: []any{"a"}}}}}
	request, err := newRequest("Metadata", 4, body)
	if err != nil {
		t.Fatal(err)
	}
	if m := request.(*kmsg.MetadataRequest); len(m.Topics) != 1 || *m.Topics[0].Topic != "a" {
		t.Errorf("request %+v", m)
	}
	for _, bad := range []object{
		{keys: []string{"Nonsense"}, values: []any{int64(1)}},
		{keys: []string{"Topics"}, values: []any{int64(1)}},
		{keys: []string{"AllowAutoTopicCreation"}, values: []any{"yes"}},
	} {
		if _, err := newRequest("Metadata", 4, bad); err == nil {
			t.Errorf("%+v fits a request", bad)
		}
	}
	if _, err := newRequest("NoSuchAPI", 0, object{}); err == nil {
		t.Error("an unknown API has a request")
	}
}

// TestBatchesRoundTrip checks the batches of this package against kmsg's reader and the CRC.
func TestBatchesRoundTrip(t *testing.T) {
	env := newEnvironment(BrokerIdentity{}, time.UnixMilli(1_700_000_000_000))
	for _, codec := range codecNames {
		v, err := parseLiteral(`batch{recs:[{k:a v:b h:{x:y}} {v:null ts:$now+5}] codec:` + codec + ` pid:7 epoch:1 seq:3}`)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := v.eval(env)
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]string{}
		for _, f := range env.dumpBatch(raw.([]byte)) {
			fields[f.name] = f.value
		}
		for name, want := range map[string]string{
			"CRC": "good", "NumRecords": "2", "LastOffsetDelta": "1", "ProducerID": "$pid1", "FirstSequence": "3",
			"MaxTimestamp": "$now+5", "Records": `"\x18\x00\x00\x00\x02a\x02b\x02\x02x\x02y\f\x00\n\x02\x01\x01\x00"`,
		} {
			if fields[name] != want {
				t.Errorf("%s: %s is %s, want %s", codec, name, fields[name], want)
			}
		}
	}
}

func TestTranscriptRoundTrip(t *testing.T) {
	made := transcript{name: "f/case", steps: []step{{label: "send Metadata v1", groups: []group{
		{path: ".", fields: []field{{name: "took", value: "under-1s"}}},
		{path: "", fields: []field{{name: "ErrorCode", value: "3:UNKNOWN"}, {name: "Text", value: `"a b=c: #d"`}}},
		{path: `Topics["x: y"]`, fields: []field{{name: "Message", value: "$text", hint: "why # not\nso"}, {name: "List", value: `["a b",c]`}}},
	}}, {label: "close", groups: []group{{path: ".", fields: []field{{name: "outcome", value: "closed"}}}}}}}
	var b strings.Builder
	made.write(&b)
	got, err := parseTranscripts(b.String())
	if err != nil || len(got) != 1 {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if d := compare(made, got[0]); len(d) != 0 {
		t.Errorf("differences %v in\n%s", d, b.String())
	}
	if len(got[0].steps[0].groups) != 3 || got[0].steps[0].groups[2].path != `Topics["x: y"]` {
		t.Errorf("groups %+v", got[0].steps[0].groups)
	}
}

func TestCompareFindsEveryKindOfDifference(t *testing.T) {
	base := func() transcript {
		list, err := parseTranscripts("case f/c\n-- 1 send X v1\n: A=1 B=2\nT[a]: E=0\nT[a].P[0]: E=0\n-- 2 close\n.: outcome=closed\n")
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	for want, change := range map[string]func(*transcript){
		"f/c#1 | A | 1 | 9":      func(m *transcript) { m.steps[0].groups[0].fields[0].value = "9" },
		"f/c#1 | B | 2 | absent": func(m *transcript) { m.steps[0].groups[0].fields = m.steps[0].groups[0].fields[:1] },
		"f/c#1 | C | absent | 3": func(m *transcript) {
			g := &m.steps[0].groups[0]
			g.fields = append(g.fields, field{name: "C", value: "3"})
		},
		"f/c#1 | T[a] | present | absent":      func(m *transcript) { m.steps[0].groups = m.steps[0].groups[:1] },
		"f/c#1 | T[a].P[0] | present | absent": func(m *transcript) { m.steps[0].groups = m.steps[0].groups[:2] },
		"f/c#1 | T[b] | absent | present": func(m *transcript) {
			m.steps[0].groups = append(m.steps[0].groups, group{path: "T[b]"}, group{path: "T[b].P[0]"})
		},
		"f/c#2 | outcome | closed | answer": func(m *transcript) { m.steps[1].groups = nil },
		"f/c#2 | step | present | absent":   func(m *transcript) { m.steps = m.steps[:1] },
		"f/c#2 | step | close | silent 1s":  func(m *transcript) { m.steps[1].label = "silent 1s" },
		"f/c#1 | T[a].E | 0 | 3":            func(m *transcript) { m.steps[0].groups[1].fields[0].value = "3" },
		"f/c#1 | took | absent | under-1s": func(m *transcript) {
			m.steps[0].groups = append([]group{{path: ".", fields: []field{{name: "took", value: "under-1s"}}}}, m.steps[0].groups...)
		},
		"f/c#1 | outcome | answer | undecodable": func(m *transcript) {
			m.steps[0].groups = []group{{path: ".", fields: []field{{name: "outcome", value: "undecodable"}}}}
		},
	} {
		ours := base()
		change(&ours)
		found := compare(base(), ours)
		if len(found) != 1 || found[0].String() != want {
			t.Errorf("found %v, want %s", found, want)
		}
	}
	if found := compare(base(), base()); len(found) != 0 {
		t.Errorf("a transcript differs from itself: %v", found)
	}
}

func TestDifferencesAreExplainedOrNot(t *testing.T) {
	list, err := parseDifferences("# comment\nf/*#1 | T[*].E | 0 | 3 | why\nf/other#* | * | * | * | never\n")
	if err != nil {
		t.Fatal(err)
	}
	unexplained, used := explain(list, []difference{{"f/c/v3#1", "T[$t].E", "0", "3"}, {"f/c/v3#1", "T[$t].E", "0", "4"}, {"f/c/v3#11", "T[$t].E", "0", "3"}})
	if len(unexplained) != 2 || !used[2] || used[3] {
		t.Errorf("unexplained %v, used %v", unexplained, used)
	}
	for _, bad := range []string{"a | b | c | d", "a | b | c | d | ", "a"} {
		if _, err := parseDifferences(bad); err == nil {
			t.Errorf("%q parses", bad)
		}
	}
}

func TestSymbols(t *testing.T) {
	env := newEnvironment(BrokerIdentity{Host: "127.0.0.1", Port: 9092, ClusterID: "abcdefghijklmnopqrstuv"}, time.UnixMilli(1_700_000_000_000))
	env.addName("t", "x1.2.t")
	for in, want := range map[string]string{
		"x1.2.t": "$t", "member-0f8fad5b-d9cb-469f-a165-70867728950e": "member-$uuid1",
		"at 127.0.0.1:9092 or 127.0.0.1:40000": "at $host:$port or $host:$other", "abcdefghijklmnopqrstuv": "$cluster",
		"message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
	} {
		if got := env.symbolise(in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
	if a, b, c := env.symbol("pid", "5"), env.symbol("pid", "6"), env.symbol("pid", "5"); a != "$pid1" || b != "$pid2" || c != a {
		t.Errorf("symbols %s %s %s", a, b, c)
	}
	if got := env.time(1_700_000_003_000); got != "$time" {
		t.Errorf("a time of now is %s", got)
	}
	if got := env.time(42); got != "42" {
		t.Errorf("an old time is %s", got)
	}
}
