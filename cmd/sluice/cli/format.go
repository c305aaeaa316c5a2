package cli

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The layouts of -f are those of rpk, which the client's library reads and writes, plus kcat's
// letters where they differ:
//
//	%s value  %S its length  %T time in ms  %h all headers as a=b,c=d  %d{rfc3339}
//
// (rpk's %T is the length of the topic's name, which nobody asks for.)

// piece is a part of a layout: text for the library, or a bare %h, which is ours.
type piece struct {
	layout  string
	headers bool
}

// pieces translates kcat's letters and cuts at each bare %h.
func pieces(layout string) []piece {
	var out []piece
	var b strings.Builder
	for i := 0; i < len(layout); {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			i++
			continue
		}
		letter := layout[i+1]
		i += 2
		braces := braced(layout[i:])
		if letter == '%' || letter == '{' || letter == '}' {
			braces = ""
		}
		i += len(braces)
		if letter == 'h' && braces == "" {
			out = append(out, piece{layout: b.String()}, piece{headers: true})
			b.Reset()
			continue
		}
		b.WriteString(translated(letter, braces))
	}
	return append(out, piece{layout: b.String()})
}

// braced is the group of braces that s begins with, nested ones included; "" when there is none.
func braced(s string) string {
	if s == "" || s[0] != '{' {
		return ""
	}
	depth := 0
	for i := range s {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[:i+1]
			}
		}
	}
	return s
}

func translated(letter byte, braces string) string {
	switch letter {
	case 's':
		letter = 'v'
	case 'S':
		letter = 'V'
	case 'T':
		letter = 'd'
	case 'd':
		switch strings.ToLower(braces) {
		case "{rfc3339}":
			braces = "{go#2006-01-02T15:04:05.000Z07:00#}"
		case "{date}":
			braces = "{go#2006-01-02#}"
		case "{unix}", "{ms}":
			braces = ""
		}
	}
	return "%" + string(letter) + braces
}

// readLayout is a layout for input, in the library's letters.
func readLayout(layout string) string {
	var b strings.Builder
	for _, p := range pieces(layout) {
		b.WriteString(p.layout)
		if p.headers {
			b.WriteString("%h")
		}
	}
	return b.String()
}

// formatter writes records by a layout.
type formatter struct {
	steps []func(b []byte, p *kgo.FetchPartition, r *kgo.Record) []byte
	// null stands for a null key or value.
	null []byte
}

func newFormatter(layout string, null bool) (*formatter, error) {
	f := &formatter{}
	if null {
		f.null = []byte("NULL")
	}
	for _, p := range pieces(layout) {
		if p.headers {
			f.steps = append(f.steps, appendHeaders)
			continue
		}
		if p.layout == "" {
			continue
		}
		rf, err := kgo.NewRecordFormatter(p.layout)
		if err != nil {
			return nil, usagef("-f %q: %w", layout, err)
		}
		f.steps = append(f.steps, func(b []byte, p *kgo.FetchPartition, r *kgo.Record) []byte {
			return rf.AppendPartitionRecord(b, p, r)
		})
	}
	return f, nil
}

func (f *formatter) append(b []byte, p *kgo.FetchPartition, r *kgo.Record) []byte {
	if f.null != nil && (r.Key == nil || r.Value == nil) {
		shown := *r
		if shown.Key == nil {
			shown.Key = f.null
		}
		if shown.Value == nil {
			shown.Value = f.null
		}
		r = &shown
	}
	for _, step := range f.steps {
		b = step(b, p, r)
	}
	return b
}

// appendHeaders writes headers as kcat does: a=b,c=d.
func appendHeaders(b []byte, _ *kgo.FetchPartition, r *kgo.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, h.Key...)
		b = append(b, '=')
		if h.Value == nil {
			b = append(b, "NULL"...)
		}
		b = append(b, h.Value...)
	}
	return b
}

// unescape reads \n, \t, \r, \\ and \xNN in a delimiter.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		return s
	}
	return out
}
