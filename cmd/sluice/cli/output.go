package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The forms of output.
const (
	formTable = "table"
	formWide  = "wide"
	formJSON  = "json"
	formLines = "jsonl"
	formYAML  = "yaml"
	formName  = "name"
)

var forms = []string{formTable, formWide, formJSON, formLines, formYAML, formName}

// outputFlag gives a command its -o. Verbs that change things print data only when it is asked for:
// their default is "".
func outputFlag(cmd *cobra.Command, form *string, otherwise string) {
	*form = otherwise
	cmd.Flags().VarP(&formValue{form}, "output", "o", strings.Join(forms, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms,
		cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
}

type formValue struct{ form *string }

func (v *formValue) String() string { return *v.form }
func (v *formValue) Type() string   { return "form" }

// Set implements pflag.Value.
func (v *formValue) Set(s string) error {
	if !slices.Contains(forms, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(forms, ", "))
	}
	*v.form = s
	return nil
}

// column is one column of a table of T.
type column[T any] struct {
	head string
	cell func(T) string
	wide bool // shown with -o wide alone
}

// listing says how items are shown; JSON and YAML follow from the fields' tags.
type listing[T any] struct {
	columns []column[T]
	name    func(T) string
	// single shows one object instead of a list of one.
	single bool
	// text replaces the table.
	text func(w io.Writer, wide bool, items []T)
}

// show prints items to stdout in one of the forms.
func show[T any](e *env, form string, l listing[T], items []T) error {
	var b bytes.Buffer
	var err error
	switch form {
	case "":
	case formName:
		for _, it := range items {
			fmt.Fprintln(&b, l.name(it))
		}
	case formJSON:
		err = writeJSON(&b, l.value(items), "  ")
	case formLines:
		for _, it := range items {
			if err = writeJSON(&b, it, ""); err != nil {
				break
			}
		}
	case formYAML:
		err = writeYAML(&b, l.value(items))
	default:
		if l.text != nil {
			l.text(&b, form == formWide, items)
			break
		}
		l.table(e, &b, form == formWide, items)
	}
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(b.Bytes())
	return err
}

func (l listing[T]) value(items []T) any {
	if l.single && len(items) == 1 {
		return items[0]
	}
	if items == nil {
		return []T{} // an empty list, not null
	}
	return items
}

func (l listing[T]) table(e *env, w io.Writer, wide bool, items []T) {
	var head []string
	var cells []func(T) string
	for _, c := range l.columns {
		if !c.wide || wide {
			head, cells = append(head, c.head), append(cells, c.cell)
		}
	}
	rows := make([][]string, len(items))
	for i, it := range items {
		for _, cell := range cells {
			rows[i] = append(rows[i], cell(it))
		}
	}
	writeTable(w, head, rows, e.colorful(e.stdout))
}

// writeJSON writes v with int64 as numbers and without HTML's escapes.
func writeJSON(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// colorful tells whether w is shown to somebody who likes colour.
func (e *env) colorful(w any) bool {
	switch e.color {
	case "always":
		return true
	case "never":
		return false
	}
	return isTerminal(w) && e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb"
}

// isTerminal tells whether a stream is a character device: somebody looks at it.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// say talks to the user, on stderr, unless told to be quiet.
func (e *env) say(format string, args ...any) {
	if !e.quiet {
		writeTo(e.stderr, format+"\n", args...)
	}
}

func writeTo(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...) // a closed terminal must not stop a broker
}
