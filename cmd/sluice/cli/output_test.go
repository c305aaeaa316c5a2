package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var b bytes.Buffer
	writeTable(&b, []string{"NAME", "N", "NOTE"}, [][]string{
		{"äöü", "7", "x"}, {"longer name", "1234", ""}, {"z", "-", "y"},
	}, false)
	want := "NAME            N  NOTE\n" +
		"äöü             7  x\n" +
		"longer name  1234\n" +
		"z               -  y\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	writeTable(&b, []string{"A"}, nil, true)
	if b.String() != "\x1b[1mA\x1b[0m\n" {
		t.Errorf("an empty table in colour: %q", b.String())
	}
}

func TestColor(t *testing.T) {
	e := &env{globals: globals{color: "auto"}}
	if e.colorful(&bytes.Buffer{}) {
		t.Error("a buffer likes no colour")
	}
	e.color = "always"
	if !e.colorful(&bytes.Buffer{}) {
		t.Error("always is always")
	}
}

func TestYAML(t *testing.T) {
	var v any
	text := `{"a":[1,"x: y",null,true,[],{}],"b":{"c":{"d":[{"e":1,"f":"no"},{"e":9223372036854775807}]}},` +
		`"g":"<&>","h":"","i":[[1,2],[3]],"j":"2026","k":"-x","l":"a\nb"}`
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeYAML(&b, v); err != nil {
		t.Fatal(err)
	}
	want := `a:
  - 1
  - "x: y"
  - null
  - true
  - []
  - {}
b:
  c:
    d:
      - e: 1
        f: "no"
      - e: 9223372036854775807
g: "<&>"
h: ""
i:
  - - 1
    - 2
  - - 3
j: "2026"
k: "-x"
l: "a\nb"
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 3_100_000_000: "3.1 GB", 999_960: "1.0 MB", 1 << 62: "4.6 EB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"topic", "produce", "consume", "group", "a"}
	for name, want := range map[string]string{
		"topci": "topic", "prodcue": "produce", "gruop": "group", "xyz": "", "d": "", "conzume": "consume",
		"frobnicate": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if d := edits("kitten", "sitting"); d != 3 {
		t.Errorf("kitten to sitting takes %d edits, want 3", d)
	}
}
