package config

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxPropertiesBytes bounds a .properties file: a larger one is surely not meant as such.
const MaxPropertiesBytes = 4 << 20

// ParseProperties reads a .properties file in Java's format (java.util.Properties.load), in UTF-8:
//
//	# comment, also !           key=value   key: value   key value
//	key = a, \                  a backslash at the end goes on in the next line,
//	      b                     whose leading blanks are dropped
//	\t \n \r \f \\ \=  \u00e9   escapes, in keys and values
//
// A key given twice keeps its last value.
func ParseProperties(r io.Reader) (map[string]string, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxPropertiesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	if len(text) > MaxPropertiesBytes {
		return nil, fmt.Errorf("properties are larger than %d bytes", MaxPropertiesBytes)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if i := invalidUTF8(text); i >= 0 {
		return nil, fmt.Errorf("line %d is not UTF-8", 1+bytes.Count(text[:i], []byte("\n")))
	}
	values := make(map[string]string)
	lines := logicalLines{rest: string(text)}
	for lines.next() {
		rawKey, rawValue := splitPair(lines.line)
		key, err := unescape(rawKey)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lines.number, err)
		}
		value, err := unescape(rawValue)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lines.number, err)
		}
		values[key] = value
	}
	return values, nil
}

// invalidUTF8 is the position of the first bad byte, or -1.
func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

// logicalLines joins continued lines and skips blank ones and comments.
type logicalLines struct {
	rest   string
	line   string
	number int // of the line that the logical one begins on
	read   int // natural lines read
}

func (l *logicalLines) next() bool {
	for l.rest != "" {
		line := l.natural()
		l.number = l.read
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		if !continued(line) {
			l.line = line
			return true
		}
		var joined strings.Builder
		for {
			more := continued(line)
			if more {
				line = line[:len(line)-1]
			}
			joined.WriteString(line)
			if !more || l.rest == "" {
				break
			}
			line = l.natural()
		}
		l.line = joined.String()
		return true
	}
	return false
}

// natural cuts one line off, without its leading blanks. Lines end in \n, \r or \r\n.
func (l *logicalLines) natural() string {
	l.read++
	end := strings.IndexAny(l.rest, "\r\n")
	line := l.rest
	switch {
	case end < 0:
		l.rest = ""
	case strings.HasPrefix(l.rest[end:], "\r\n"):
		line, l.rest = l.rest[:end], l.rest[end+2:]
	default:
		line, l.rest = l.rest[:end], l.rest[end+1:]
	}
	return strings.TrimLeft(line, " \t\f")
}

// continued reports whether a line ends in an odd number of backslashes.
func continued(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// splitPair cuts a logical line at the first unescaped '=', ':' or blank.
func splitPair(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

// unescape resolves backslashes. An unknown escape stands for its second character.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			r, n, err := unicodeEscape(s[i-1:])
			if err != nil {
				return "", err
			}
			out.WriteRune(r)
			i += n - 2
		default:
			out.WriteByte(s[i])
		}
	}
	return out.String(), nil
}

// unicodeEscape reads \uXXXX, or two of them that make one character. n is the bytes read.
func unicodeEscape(s string) (r rune, n int, err error) {
	first, err := hex4(s)
	if err != nil {
		return 0, 0, err
	}
	if !utf16.IsSurrogate(first) {
		return first, 6, nil
	}
	if second, err := hex4(s[6:]); err == nil {
		if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
			return pair, 12, nil
		}
	}
	return utf8.RuneError, 6, nil
}

func hex4(s string) (rune, error) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, fmt.Errorf(`malformed \uxxxx escape`)
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	if err != nil {
		return 0, fmt.Errorf(`malformed \uxxxx escape %q`, s[:6])
	}
	return rune(n), nil
}
