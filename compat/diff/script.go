package diff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// script is one file of cases.
type script struct {
	name string
	// broker holds the key=value settings that the file's broker is started with, beyond those of
	// every broker; files with the same settings share one.
	broker []string
	cases  []*caseScript
}

// caseScript is one case: its name and what it does.
type caseScript struct {
	name  string
	steps []instruction
	// alone says that the case restarts the broker or looks at all of it, so nothing may run beside.
	alone bool
}

// instruction is one line of a case.
type instruction struct {
	line      int
	verb      string
	words     []string          // what stands before the value
	modifiers map[string]string // word=word before the value
	value     *literal
}

// verbs are the words a line of a case may begin with, and how many plain words may follow.
var verbs = map[string]struct{ least, most int }{
	"topic":   {1, 1}, // topic NAME [partitions=N] [config=value…]: a fresh topic, created and visible
	"name":    {1, 1}, // name NAME: a fresh name that is not created
	"pid":     {1, 1}, // pid NAME: a fresh producer id, as $NAME
	"conn":    {1, 1}, // conn NAME [client=ID|null]: use this connection, opened on first use
	"send":    {1, 2}, // send API vN [until=PATH:VALUE] [took=DURATION] [mine=FIELD] {body}: write, read, record
	"quiet":   {1, 2}, // quiet API vN [until=…] {body}: the same without recording, for preparations
	"post":    {1, 2}, // post API vN {body}: write only
	"recv":    {0, 2}, // recv [API vN] [took=…]: read and record
	"silent":  {1, 1}, // silent DURATION: record that nothing comes, or what comes
	"close":   {0, 0}, // close: record that the broker closes the connection
	"hangup":  {0, 0}, // hangup: close our side
	"frame":   {0, 2}, // frame [API vN] VALUE: write raw bytes behind their size; an answer is parsed as the API's
	"raw":     {0, 0}, // raw VALUE: write raw bytes
	"get":     {2, 2}, // get NAME PATH: remember a value of the last answer
	"let":     {1, 1}, // let NAME VALUE
	"sleep":   {1, 1}, // sleep DURATION
	"gone":    {1, 1}, // gone NAME: wait until Metadata no longer knows the topic
	"ready":   {1, 1}, // ready NAME [partitions=N]: wait until Metadata knows the topic and all leaders, set NAME.id
	"restart": {0, 0}, // restart: stop the broker and start it again
}

// recorded verbs leave a step in the transcript.
var recorded = []string{"send", "recv", "silent", "close"}

var definition = regexp.MustCompile(`@[a-zA-Z][a-zA-Z0-9_]*`)

// parser turns the text of a file into cases, expanding definitions and version ranges.
type parser struct {
	script      *script
	definitions map[string]string
	each        []loop
	header      string // the case line's name, "" outside of a case
	body        []statement
	alone       bool
}

type loop struct {
	variable string
	values   []string
}

// statement is a logical line: continuation lines joined.
type statement struct {
	line int
	text string
}

func parseScript(name, text string) (*script, error) {
	p := &parser{script: &script{name: name}, definitions: map[string]string{}}
	statements, err := joinLines(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range statements {
		if err := p.statement(s); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, s.line, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.script, nil
}

// joinLines drops comments and joins lines as long as brackets are open.
func joinLines(text string) ([]statement, error) {
	var out []statement
	open, start, joined := 0, 0, ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if open == 0 {
			start, joined = i+1, ""
		}
		depth, clean := scanLine(line)
		joined = strings.TrimSpace(joined + " " + clean)
		if open += depth; open < 0 {
			return nil, fmt.Errorf("line %d: a bracket too many", i+1)
		}
		if open == 0 {
			out = append(out, statement{start, joined})
		}
	}
	if open != 0 {
		return nil, fmt.Errorf("line %d: brackets left open", start)
	}
	return out, nil
}

// scanLine counts brackets outside of strings and cuts a trailing comment.
func scanLine(line string) (depth int, clean string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			i += quotedLen(line[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '#':
			if i > 0 && line[i-1] == ' ' {
				return depth, strings.TrimSpace(line[:i])
			}
		}
	}
	return depth, line
}

func (p *parser) statement(s statement) error {
	verb, rest, _ := strings.Cut(s.text, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "broker":
		p.script.broker = append(p.script.broker, strings.Fields(rest)...)
	case "def":
		name, text, _ := strings.Cut(rest, " ")
		p.definitions["@"+name] = p.expand(text)
	case "case":
		if err := p.finish(); err != nil {
			return err
		}
		p.header = rest
	case "each":
		words := splitWords(rest)
		if len(words) < 2 || p.header == "" {
			return fmt.Errorf("each NAME VALUES…, inside of a case")
		}
		p.each = append(p.each, loop{words[0], expandRanges(words[1:])})
	case "alone":
		p.alone = true
	default:
		if p.header == "" {
			return fmt.Errorf("%s outside of a case", verb)
		}
		p.body = append(p.body, statement{s.line, p.expand(s.text)})
	}
	return nil
}

// expand replaces definitions; those inside definitions were replaced when they were made.
func (p *parser) expand(text string) string {
	return definition.ReplaceAllStringFunc(text, func(m string) string {
		if d, ok := p.definitions[m]; ok {
			return d
		}
		return m
	})
}

// splitWords splits at blanks; a quoted word may hold some.
func splitWords(text string) []string {
	var out []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := valueEnd(text)
		word := text[:n]
		if unquoted, err := strconv.Unquote(word); err == nil {
			word = unquoted
		}
		out, text = append(out, word), text[n:]
	}
	return out
}

// suffix makes a loop's value fit into a case name.
func suffix(value string) string {
	return strings.ReplaceAll(strconv.QuoteToASCII(value)[1:len(strconv.QuoteToASCII(value))-1], " ", "+")
}

// expandRanges turns 3..5 into 3 4 5.
func expandRanges(words []string) []string {
	var out []string
	for _, w := range words {
		from, to, ok := strings.Cut(w, "..")
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if !ok || errA != nil || errB != nil {
			out = append(out, w)
			continue
		}
		for n := a; n <= b; n++ {
			out = append(out, strconv.Itoa(n))
		}
	}
	return out
}

// finish makes the cases of the case that was being read: one for each combination of its loops.
func (p *parser) finish() error {
	if p.header == "" {
		return nil
	}
	combinations := []map[string]string{{}}
	suffixes := []string{""}
	for _, l := range p.each {
		var next []map[string]string
		var nextSuffixes []string
		for i, c := range combinations {
			for _, v := range l.values {
				m := map[string]string{l.variable: v}
				for k, old := range c {
					m[k] = old
				}
				next, nextSuffixes = append(next, m), append(nextSuffixes, suffixes[i]+"/"+l.variable+suffix(v))
			}
		}
		combinations, suffixes = next, nextSuffixes
	}
	for i, c := range combinations {
		made := &caseScript{name: p.script.name + "/" + p.header + suffixes[i], alone: p.alone}
		for _, s := range p.body {
			in, err := parseInstruction(s, c)
			if err != nil {
				return fmt.Errorf("line %d: %w", s.line, err)
			}
			made.alone = made.alone || in.verb == "restart"
			made.steps = append(made.steps, in)
		}
		if slices.ContainsFunc(p.script.cases, func(o *caseScript) bool { return o.name == made.name }) {
			return fmt.Errorf("two cases are called %s", made.name)
		}
		p.script.cases = append(p.script.cases, made)
	}
	p.header, p.body, p.each, p.alone = "", nil, nil, false
	return nil
}

// parseInstruction reads "verb word… modifier=word… value" after putting in the loop variables.
func parseInstruction(s statement, variables map[string]string) (instruction, error) {
	text := s.text
	names := slices.SortedFunc(maps.Keys(variables), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		text = strings.ReplaceAll(text, "%"+name, variables[name])
	}
	in := instruction{line: s.line, modifiers: map[string]string{}}
	var rest string
	in.verb, rest, _ = strings.Cut(text, " ")
	limits, ok := verbs[in.verb]
	if !ok {
		return in, fmt.Errorf("no verb %q", in.verb)
	}
	for {
		rest = strings.TrimSpace(rest)
		word, after, _ := strings.Cut(rest, " ")
		name, value, isModifier := strings.Cut(word, "=")
		switch {
		case word == "":
			return in, in.check(limits.least)
		case isModifier && !strings.ContainsAny(name, `{["`):
			in.modifiers[name] = value
		case len(in.words) < limits.most && (in.verb == "get" || !strings.ContainsAny(word, `{["$`)):
			in.words = append(in.words, word)
		default:
			v, err := parseLiteral(rest)
			in.value = &v
			if err != nil {
				return in, err
			}
			return in, in.check(limits.least)
		}
		rest = after
	}
}

func (in instruction) check(least int) error {
	if len(in.words) < least {
		return fmt.Errorf("%s needs %d words", in.verb, least)
	}
	return nil
}

// api returns the API and version that an instruction names.
func (in instruction) api() (name string, version int16, err error) {
	name = in.words[0]
	if len(in.words) > 1 {
		n, err := strconv.ParseInt(strings.TrimPrefix(in.words[1], "v"), 10, 16)
		if err != nil || !strings.HasPrefix(in.words[1], "v") {
			return name, 0, fmt.Errorf("%q is not a version", in.words[1])
		}
		version = int16(n)
	}
	return name, version, nil
}
