package diff

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// transcript is what a broker did in one case.
type transcript struct {
	name  string
	steps []step
}

// step is one recorded step: what was asked and what came of it. Groups whose path is "." say how
// the step went (outcome, took); the others are the answer.
type step struct {
	label  string
	groups []group
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:/$+*,-]+$`)

// quoteWord quotes a text unless it can stand in a golden line as it is.
func quoteWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return strconv.QuoteToASCII(text)
}

// write appends a transcript in the golden files' format.
func (t transcript) write(b *strings.Builder) {
	fmt.Fprintf(b, "case %s\n", t.name)
	for i, s := range t.steps {
		fmt.Fprintf(b, "-- %d %s\n", i+1, s.label)
		for _, g := range s.groups {
			g.write(b)
		}
	}
	b.WriteByte('\n')
}

func (g group) write(b *strings.Builder) {
	if len(g.fields) == 0 && g.path == "" {
		return
	}
	b.WriteString(g.path + ":")
	var hints []string
	for _, f := range g.fields {
		fmt.Fprintf(b, " %s=%s", f.name, f.value)
		if f.hint != "" {
			const longest = 160
			hint := strings.ToValidUTF8(strings.ReplaceAll(f.hint, "\n", " "), "?")
			if len(hint) > longest {
				hint = strings.ToValidUTF8(hint[:longest], "") + "…"
			}
			hints = append(hints, hint)
		}
	}
	if len(hints) > 0 {
		b.WriteString("  # " + strings.Join(hints, "; "))
	}
	b.WriteByte('\n')
}

// parseTranscripts reads a golden file.
func parseTranscripts(text string) ([]transcript, error) {
	var out []transcript
	for number, line := range strings.Split(text, "\n") {
		var err error
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "case "):
			out = append(out, transcript{name: line[len("case "):]})
		case strings.HasPrefix(line, "-- ") && len(out) > 0:
			_, label, _ := strings.Cut(line[len("-- "):], " ")
			t := &out[len(out)-1]
			t.steps = append(t.steps, step{label: label})
		case len(out) > 0 && len(out[len(out)-1].steps) > 0:
			steps := out[len(out)-1].steps
			var g group
			if g, err = parseGroup(line); err == nil {
				s := &steps[len(steps)-1]
				s.groups = append(s.groups, g)
			}
		default:
			err = fmt.Errorf("a line outside of a case")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	return out, nil
}

// parseGroup reads "path: name=value name=value  # hints".
func parseGroup(line string) (group, error) {
	end := pathEnd(line)
	if end < 0 {
		return group{}, fmt.Errorf("no path in %.40q", line)
	}
	g := group{path: line[:end]}
	rest := line[end+1:]
	for {
		if rest == "" || strings.HasPrefix(rest, "  # ") {
			return g, nil
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(rest, " "), "=")
		if !ok {
			return g, fmt.Errorf("no value at %.40q", rest)
		}
		n := valueEnd(value)
		g.fields = append(g.fields, field{name: name, value: value[:n]})
		rest = value[n:]
	}
}

// pathEnd finds the colon behind a path; a quoted key inside the path may hold colons.
func pathEnd(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			i += quotedLen(line[i:]) - 1
		case ':':
			if i+1 == len(line) || line[i+1] == ' ' {
				return i
			}
		}
	}
	return -1
}

// valueEnd finds the blank behind a value; quoted parts may hold blanks.
func valueEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += quotedLen(text[i:]) - 1
		case ' ':
			return i
		}
	}
	return len(text)
}

func quotedLen(text string) int {
	prefix, err := strconv.QuotedPrefix(text)
	if err != nil {
		return 1
	}
	return len(prefix)
}
