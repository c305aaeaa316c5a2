package diff

import (
	"fmt"
	"strconv"
	"strings"
)

// kind tells the forms of a literal apart.
type kind int8

const (
	kindNumber kind = iota
	kindString      // quoted, or a bare word
	kindNull
	kindBool
	kindRef    // $name, $name+1
	kindObject // {key: value …}
	kindArray  // [value …]
	kindCall   // name{…}, name[…], name"…"
)

// literal is one parsed value of a case file; it is evaluated anew in each run, because what a
// reference stands for is known only then.
type literal struct {
	kind   kind
	text   string // string, name of a reference or call
	number int64  // number, bool, what is added to a reference
	items  []literal
	keys   []string // of an object, beside items
}

// scanner reads literals. Commas are blanks; a comment runs from # after a blank to the end of line.
type scanner struct {
	text string
	at   int
}

func (s *scanner) skipBlank() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == ',':
			s.at++
		case c == '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '/' || c >= '0' && c <= '9' ||
		c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (s *scanner) word() string {
	start := s.at
	for s.at < len(s.text) && isWordByte(s.text[s.at]) {
		s.at++
	}
	return s.text[start:s.at]
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("%s near %.30q", fmt.Sprintf(format, args...), s.text[min(s.at, len(s.text)):])
}

// parseLiteral parses text that holds exactly one value.
func parseLiteral(text string) (literal, error) {
	s := &scanner{text: text}
	v, err := s.value()
	if err != nil {
		return literal{}, err
	}
	if s.skipBlank(); s.at != len(s.text) {
		return literal{}, s.errorf("more than one value")
	}
	return v, nil
}

func (s *scanner) value() (literal, error) {
	s.skipBlank()
	switch c := s.peek(); {
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '"':
		text, err := s.quoted()
		return literal{kind: kindString, text: text}, err
	case c == '$':
		return s.reference()
	case isWordByte(c):
		return s.wordValue()
	}
	return literal{}, s.errorf("no value")
}

func (s *scanner) quoted() (string, error) {
	prefix, err := strconv.QuotedPrefix(s.text[s.at:])
	if err != nil {
		return "", s.errorf("bad string")
	}
	s.at += len(prefix)
	return strconv.Unquote(prefix)
}

// reference parses $name or $name.part, with +N or -N directly behind it.
func (s *scanner) reference() (literal, error) {
	s.at++
	start := s.at
	for c := s.peek(); c != '-' && c != '/' && isWordByte(c); c = s.peek() {
		s.at++
	}
	v := literal{kind: kindRef, text: s.text[start:s.at]}
	if c := s.peek(); c == '+' || c == '-' {
		s.at++
		n, err := strconv.ParseInt(s.word(), 10, 64)
		if err != nil {
			return v, s.errorf("bad sum")
		}
		if v.number = n; c == '-' {
			v.number = -n
		}
	}
	if v.text == "" {
		return v, s.errorf("reference without a name")
	}
	return v, nil
}

func (s *scanner) wordValue() (literal, error) {
	w := s.word()
	switch c := s.peek(); {
	case c == '{' || c == '[' || c == '"':
		argument, err := s.value()
		return literal{kind: kindCall, text: w, items: []literal{argument}}, err
	case w == "null":
		return literal{kind: kindNull}, nil
	case w == "true":
		return literal{kind: kindBool, number: 1}, nil
	case w == "false":
		return literal{kind: kindBool}, nil
	}
	if n, err := strconv.ParseInt(w, 0, 64); err == nil {
		return literal{kind: kindNumber, number: n, text: w}, nil
	}
	return literal{kind: kindString, text: w}, nil
}

func (s *scanner) array() (literal, error) {
	v := literal{kind: kindArray}
	for s.at++; ; {
		if s.skipBlank(); s.peek() == ']' {
			s.at++
			return v, nil
		}
		item, err := s.value()
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
	}
}

func (s *scanner) object() (literal, error) {
	v := literal{kind: kindObject}
	for s.at++; ; {
		if s.skipBlank(); s.peek() == '}' {
			s.at++
			return v, nil
		}
		key := s.word()
		if key == "" || s.peek() != ':' {
			return v, s.errorf("no key: in object")
		}
		s.at++
		item, err := s.value()
		if err != nil {
			return v, err
		}
		v.keys = append(v.keys, key)
		v.items = append(v.items, item)
	}
}

// object is an evaluated {…}: its fields in the order written.
type object struct {
	keys   []string
	values []any
}

// get returns a field's value, or nil.
func (o object) get(key string) (any, bool) {
	for i, k := range o.keys {
		if k == key {
			return o.values[i], true
		}
	}
	return nil, false
}

// int returns a number field or its default.
func (o object) int(key string, otherwise int64) int64 {
	if n, ok := o.mustGet(key).(int64); ok {
		return n
	}
	return otherwise
}

// bool returns a truth field, false when it is missing.
func (o object) bool(key string) bool {
	b, _ := o.mustGet(key).(bool)
	return b
}

func (o object) mustGet(key string) any {
	v, _ := o.get(key)
	return v
}

// uuid is a topic id in an evaluated value.
type uuid [16]byte

func parseUUID(text string) (uuid, error) {
	var id uuid
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) != 32 {
		return id, fmt.Errorf("%q is not a uuid", text)
	}
	for i := range id {
		n, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			return id, fmt.Errorf("%q is not a uuid", text)
		}
		id[i] = byte(n)
	}
	return id, nil
}

// eval turns a literal into int64, bool, string, []byte, uuid, nil, []any or object.
func (v literal) eval(env *environment) (any, error) {
	switch v.kind {
	case kindNumber:
		return v.number, nil
	case kindBool:
		return v.number == 1, nil
	case kindNull:
		return nil, nil
	case kindString:
		return env.interpolate(v.text)
	case kindRef:
		return env.resolve(v.text, v.number)
	case kindArray:
		list := []any{}
		for _, item := range v.items {
			x, err := item.eval(env)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	case kindObject:
		o := object{keys: v.keys}
		for _, item := range v.items {
			x, err := item.eval(env)
			if err != nil {
				return nil, err
			}
			o.values = append(o.values, x)
		}
		return o, nil
	}
	argument, err := v.items[0].eval(env)
	if err != nil {
		return nil, err
	}
	return env.call(v.text, argument)
}
