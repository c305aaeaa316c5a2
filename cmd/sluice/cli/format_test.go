package cli

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFormat(t *testing.T) {
	rec := &kgo.Record{
		Topic: "orders", Partition: 3, Offset: 42, Key: []byte("u1"), Value: []byte(`{"n":1}`),
		Timestamp: time.UnixMilli(1_767_225_600_123),
		Headers:   []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	}
	for _, c := range []struct{ layout, want string }{
		{`%t/%p@%o %k=%v\n`, "orders/3@42 u1={\"n\":1}\n"},
		{`%s|%S|%K|%V`, `{"n":1}|7|2|7`},
		{`%T %d`, "1767225600123 1767225600123"},
		{`%d{rfc3339} %d{date} %d{unix}`, "2026-01-01T00:00:00.123Z 2026-01-01 1767225600123"},
		{`%d{go#2006#}`, "2026"},
		{`[%h] %H`, "[a=1,b=NULL] 2"},
		{`%h{%k:%v;}`, "a:1;b:;"},
		{`%k{hex} %v{base64}`, "7531 eyJuIjoxfQ=="},
		{`100%% %{x%}`, "100% {x}"},
		{`%t %h %t`, "orders a=1,b=NULL orders"},
		{``, ""},
		{`plain`, "plain"},
	} {
		f, err := newFormatter(c.layout, false)
		if err != nil {
			t.Errorf("%q: %v", c.layout, err)
			continue
		}
		if got := string(f.append(nil, &kgo.FetchPartition{}, rec)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.layout, got, c.want)
		}
	}
	for _, layout := range []string{`%Q`, `%v{rot13}`, `%d{go#x`, `%`} {
		if _, err := newFormatter(layout, false); err == nil || codeOf(err) != exitUsage {
			t.Errorf("%q: %v; want a usage error", layout, err)
		}
	}
}

func TestFormatNull(t *testing.T) {
	f, err := newFormatter(`%k=%v`, true)
	if err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Value: []byte{}}
	if got := string(f.append(nil, &kgo.FetchPartition{}, rec)); got != "NULL=" {
		t.Errorf("got %q: null and empty must differ", got)
	}
	if rec.Key != nil {
		t.Error("the record was changed")
	}
}

// FuzzFormat: no layout panics.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{`%t %h{%k=%v}`, `%h%h`, `%d{rfc3339}`, `%v{unpack{<bBh}}`, `%{`, `%`, `{`} {
		f.Add(s)
	}
	rec := &kgo.Record{Topic: "t", Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h"}}}
	f.Fuzz(func(_ *testing.T, layout string) {
		if fm, err := newFormatter(layout, true); err == nil {
			fm.append(nil, &kgo.FetchPartition{}, rec)
		}
	})
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`:`: ":", `\t`: "\t", `\x00`: "\x00", `"`: `"`, `\n"`: "\n\"", `\q`: `\q`, `\\`: `\`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
