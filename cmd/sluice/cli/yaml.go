package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// plainYAML are strings that need no quotes: they begin with a letter and hold nothing that YAML
// reads as more than text.
var plainYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./+-]*$`)

// notStrings are words that YAML takes for other things than text.
var notStrings = map[string]bool{
	"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true,
	"y": true, "n": true,
}

// writeYAML writes what JSON would, with the same names in the same order.
func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var b strings.Builder
	if err := yamlValue(&b, dec, 0, ""); err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// yamlValue writes the next value of dec. It begins on a line that holds lead and where a scalar may
// follow; a list or map goes on in lines of its own at the given depth.
func yamlValue(b *strings.Builder, dec *json.Decoder, depth int, lead string) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	delim, composite := t.(json.Delim)
	if !composite {
		fmt.Fprintf(b, "%s%s\n", lead, yamlScalar(t))
		return nil
	}
	if !dec.More() {
		fmt.Fprintf(b, "%s%s\n", lead, map[json.Delim]string{'[': "[]", '{': "{}"}[delim])
		_, err = dec.Token()
		return err
	}
	switch {
	case strings.HasSuffix(lead, "- "):
		b.WriteString(lead) // the first entry shares the line of the dash
	case lead != "":
		b.WriteString(strings.TrimRight(lead, " ") + "\n")
	}
	for first := true; dec.More(); first = false {
		indent := strings.Repeat("  ", depth)
		if first && strings.HasSuffix(lead, "- ") {
			indent = ""
		}
		item := indent + "- "
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			item = indent + yamlScalar(key) + ": "
		}
		if err := yamlValue(b, dec, depth+1, item); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// yamlScalar spells a value; JSON's strings are YAML's double-quoted ones.
func yamlScalar(t json.Token) string {
	switch v := t.(type) {
	case nil:
		return "null"
	case string:
		if plainYAML.MatchString(v) && !notStrings[strings.ToLower(v)] {
			return v
		}
		var b bytes.Buffer
		if err := writeJSON(&b, v, ""); err != nil {
			return `""`
		}
		return strings.TrimSpace(b.String())
	default:
		return fmt.Sprint(v)
	}
}
