package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// consumeFlags are the flags of consume.
type consumeFlags struct {
	form, format string
	where        []string // -o: an offset, or a form of output
	partitions   []int32
	count        int64
	group        string
	toEnd        bool
	null         bool
	jsonLines    bool
	committed    bool

	offsets offsetRange
	placed  bool // -o named an offset
}

func (e *env) consumeCommand() *cobra.Command {
	var o consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Print records, and wait for more",
		Long: `Offsets (-o):  start  end  100  +5 (after the start)  -10 (before the end)
  100:200  start:end  -10:end                       ranges end by themselves
  @-1h  @2026-01-01  @2026-01-01:1h  @-2h:-1h       by time
Letters (-f):  %t topic  %p partition  %o offset  %k key  %v or %s value  %h headers  %T time in ms
  %d{rfc3339} %d{go#15:04:05#} %d{strftime[%F]}     time
  %K %V lengths  %k{hex} %v{base64} encodings  %h{%k=%v } each header  %e epoch  %i count`,
		Example: `  sluice consume orders
  sluice consume orders -o start:end -f '%p/%o %d{rfc3339} %k=%v\n'
  sluice consume orders -o -10 -n 10
  sluice consume orders -o @-1h:end -J | jq .value
  sluice consume orders payments -g billing`,
		Args:              e.minArgs(1, "the name of a topic"),
		ValidArgsFunction: e.completeTopics,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(e); err != nil {
				return err
			}
			slices.Sort(args)
			return e.consume(&o, slices.Compact(args))
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.where, "offset", "o", nil, "where to begin and end (default start); or json, jsonl")
	f.StringVar(&o.form, "output", "", "json or jsonl instead of -f")
	f.BoolVarP(&o.jsonLines, "json-lines", "J", false, "the same as --output jsonl")
	f.StringVarP(&o.format, "format", "f", `%v\n`, "layout of a record")
	f.Int32SliceVarP(&o.partitions, "partition", "p", nil, "read these partitions alone")
	f.Int64VarP(&o.count, "num", "n", 0, "stop after so many records")
	f.BoolVarP(&o.toEnd, "exit", "e", false, "stop at the end of the log as it is now")
	f.StringVarP(&o.group, "group", "g", "", "read as a member of a group, and commit")
	f.BoolVarP(&o.null, "null", "Z", false, "print null keys and values as NULL")
	f.BoolVar(&o.committed, "read-committed", false, "leave out records of open and aborted transactions")
	_ = cmd.RegisterFlagCompletionFunc("group", e.completeGroups)
	return cmd
}

// check reads -o, and refuses flags that do not go together.
func (o *consumeFlags) check(e *env) error {
	for _, w := range o.where {
		if slices.Contains(forms, w) {
			o.form = w
			continue
		}
		if o.placed {
			return usagef("-o names two offsets")
		}
		var err error
		if o.offsets, err = parseRange(w, e.now()); err != nil {
			return err
		}
		o.placed = true
	}
	if o.jsonLines {
		o.form = formLines
	}
	if o.form != "" && o.form != formJSON && o.form != formLines {
		return usagef("records are printed as json or jsonl, or by -f; not as %s", o.form)
	}
	if o.toEnd && !o.offsets.bounded {
		o.offsets.bounded, o.offsets.to = true, position{whence: fromEnd}
	}
	if o.count < 0 {
		return usagef("-n %d is no number of records", o.count)
	}
	return o.checkGroup()
}

func (o *consumeFlags) checkGroup() error {
	if o.group == "" {
		return nil
	}
	if len(o.partitions) > 0 {
		return usagef("a group shares the partitions out; drop -p, or drop -g")
	}
	r := o.offsets
	if r.from.n != 0 || r.from.whence != fromStart && r.from.whence != fromEnd ||
		r.bounded && (r.to.n != 0 || r.to.whence != fromEnd) {
		return usagef("a group goes on where it is; -o may only say start or end, for a group that is "+
			"nowhere yet; move it with \"sluice group seek %s\"", o.group)
	}
	return nil
}

// consume reads until the range ends, -n records are out, or the user interrupts.
func (e *env) consume(o *consumeFlags, topics []string) error {
	p, err := newPrinter(e, o)
	if err != nil {
		return err
	}
	var r reader
	if err := e.admin(func(ctx context.Context, c *client) error {
		if o.group != "" {
			r, err = groupReader(ctx, c, o, topics)
			return err
		}
		spans, err := resolve(ctx, c, topics, o.partitions, o.offsets, o.committed)
		if err != nil {
			return err
		}
		e.warnSkipped(o, spans)
		r = directReader(o, spans)
		return nil
	}); err != nil {
		return err
	}
	return r.run(e, p)
}

// warnSkipped tells when an exact offset is no longer, or not yet, in the log.
func (e *env) warnSkipped(o *consumeFlags, spans map[tp]span) {
	if o.offsets.from.whence != exactly {
		return
	}
	var moved []string
	for k, s := range spans {
		if s.from != o.offsets.from.n {
			moved = append(moved, fmt.Sprintf("%s/%d holds %d to %d", k.topic, k.partition, s.start, s.end))
		}
	}
	if len(moved) > 0 {
		slices.Sort(moved)
		e.say("offset %d is not everywhere: %s", o.offsets.from.n, strings.Join(moved, "; "))
	}
}
