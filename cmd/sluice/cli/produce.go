package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are the flags of produce.
type produceFlags struct {
	form, format     string
	keyDelim, delim  string
	key              string
	keySet, delimSet bool
	headers          []string
	tombstone        bool
	codec, acks      string
	partition        int32
	linger           time.Duration
	maxBytes         int32
}

func (e *env) produceCommand() *cobra.Command {
	var o produceFlags
	cmd := &cobra.Command{
		Use:   "produce [TOPIC]",
		Short: "Send records, one for each line of the input",
		Long: `Each line is a value; -K splits a key off, and -f reads any layout with kcat's letters:
%t topic  %k key  %v or %s value  %p partition  %d or %T time in ms  %H{2}%h{%k=%v,} two headers
%K %V lengths, %k{hex} %v{base64} %v{json} encodings. A topic that is missing is made.`,
		Example: `  echo hello | sluice produce orders
  printf 'u1:{"total":10}\nu2:{"total":7}\n' | sluice produce orders -K:
  printf 'u1\t10\n' | sluice produce orders -f '%k\t%v\n' -H source=shell -z zstd
  echo 'u1:' | sluice produce orders -K: -Z         # a tombstone
  sluice produce orders -o jsonl < lines            # where each record went`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.completeTopics,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.keySet = cmd.Flags().Changed("key")
			o.delimSet = cmd.Flags().Changed("delimiter")
			return e.produce(o, args)
		},
	}
	outputFlag(cmd, &o.form, "")
	f := cmd.Flags()
	f.StringVarP(&o.format, "format", "f", "", "layout of the input, such as '%k:%v\\n'")
	f.StringVarP(&o.keyDelim, "key-delimiter", "K", "", "what stands between key and value")
	f.StringVarP(&o.delim, "delimiter", "D", `\n`, "what ends a record")
	f.StringVarP(&o.key, "key", "k", "", "the key of all records")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a header of all records, as key=value")
	f.BoolVarP(&o.tombstone, "tombstone", "Z", false, "send an empty value as null")
	f.StringVarP(&o.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	f.StringVar(&o.acks, "acks", "all", "all (or -1), 1 or 0")
	f.Int32VarP(&o.partition, "partition", "p", -1, "the partition of all records (default by key)")
	f.DurationVar(&o.linger, "linger", 5*time.Millisecond, "how long to wait for more records of a batch")
	f.Int32Var(&o.maxBytes, "max-message-bytes", 1000012, "how large a batch may be")
	_ = cmd.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions(slices.Clone(codecNames),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// options turns flags into the client's.
func (o *produceFlags) options(e *env, topic string) ([]kgo.Opt, error) {
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
		kgo.ZstdCompression(),
	}
	codec := slices.Index(codecNames, strings.ToLower(o.codec))
	if codec < 0 {
		return nil, usagef("--compression %q is none of %s", o.codec, strings.Join(codecNames, ", "))
	}
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(o.linger),
		kgo.AllowAutoTopicCreation(),
		kgo.ProduceRequestTimeout(e.timeout), kgo.ProducerBatchMaxBytes(o.maxBytes),
		kgo.UnknownTopicRetries(3),
	}
	if layout := readLayout(o.format); strings.Contains(layout, "%d") {
		// The client counts a record's patience from its timestamp, which is the user's here.
		opts = append(opts, kgo.RecordRetries(20))
	} else {
		opts = append(opts, kgo.RecordDeliveryTimeout(e.timeout))
	}
	switch o.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usagef("--acks %q is none of all, 1, 0", o.acks)
	}
	if topic != "" {
		opts = append(opts, kgo.DefaultProduceTopic(topic))
	}
	if o.partition < -1 {
		return nil, usagef("--partition %d is no partition", o.partition)
	}
	if o.partition >= 0 || strings.Contains(o.format, "%p") {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func (e *env) produce(o produceFlags, args []string) error {
	topic := ""
	if len(args) == 1 {
		topic = args[0]
	} else if !strings.Contains(o.format, "%t") {
		return usagef("produce to which topic? Name it, or read it with %%t in -f")
	}
	next, err := o.source(e.stdin)
	if err != nil {
		return err
	}
	opts, err := o.options(e, topic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	c, err := e.connect(ctx, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	if isTerminal(e.stdin) {
		e.say("reading records from the terminal; Ctrl-D ends")
	}
	p := &producing{e: e, form: o.form, failed: make(chan struct{})}
	err = p.run(c, next)
	return errors.Join(c.explain(p.finish(c)), err)
}

// producing counts what the broker said of the records sent so far.
type producing struct {
	e      *env
	form   string
	failed chan struct{} // closed at the first error

	mu struct {
		sync.Mutex
		err   error
		sent  int64
		went  map[string]int64 // records by topic
		rows  []sentRow
		write error
	}
}

// sentRow is where a record went.
type sentRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Time      int64  `json:"timestamp_ms"`
}

// run reads and sends until the input ends, a record fails, or the user interrupts. The reader is a
// goroutine of its own, since nothing else can leave a read of a terminal; it goes with the process.
func (p *producing) run(c *client, next func() (*kgo.Record, error)) error {
	type read struct {
		r   *kgo.Record
		err error
	}
	reads := make(chan read, 256)
	go func() {
		for {
			r, err := next()
			select {
			case reads <- read{r, err}:
			case <-p.failed:
				return
			case <-p.e.ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case got := <-reads:
			switch {
			case errors.Is(got.err, io.EOF):
				return nil
			case got.err != nil:
				return failf(exitFailed, "read the input: %w", got.err)
			}
			c.Produce(p.e.ctx, got.r, p.acked)
		case <-p.failed:
			return nil
		case <-p.e.ctx.Done():
			return p.e.ctx.Err()
		}
	}
}

// acked takes the broker's answer for one record.
func (p *producing) acked(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.mu.err == nil {
			p.mu.err = produceError(r, err)
			close(p.failed)
		}
		return
	}
	p.mu.sent++
	if p.mu.went == nil {
		p.mu.went = make(map[string]int64)
	}
	p.mu.went[r.Topic]++
	if p.form == "" {
		return
	}
	p.mu.rows = append(p.mu.rows, sentRow{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli()})
	if p.form == formLines && p.mu.write == nil {
		p.mu.write = show(p.e, formLines, sentListing(), p.mu.rows)
		p.mu.rows = p.mu.rows[:0]
	}
}

// finish waits for the answers that are out and tells how it went.
func (p *producing) finish(c *client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.e.ctx), p.e.timeout)
	defer cancel()
	flushed := c.Flush(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topic := range slices.Sorted(mapKeys(p.mu.went)) {
		p.e.say("sent %s to %s", count(p.mu.went[topic], "record"), topic)
	}
	err := p.mu.err
	if err == nil {
		err = flushed
	}
	if p.form != formLines {
		err = errors.Join(err, show(p.e, p.form, sentListing(), p.mu.rows))
	}
	return errors.Join(err, p.mu.write)
}

func sentListing() listing[sentRow] {
	return listing[sentRow]{
		name: func(r sentRow) string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) },
		columns: []column[sentRow]{
			{head: "TOPIC", cell: func(r sentRow) string { return r.Topic }},
			{head: "PARTITION", cell: func(r sentRow) string { return fmt.Sprint(r.Partition) }},
			{head: "OFFSET", cell: func(r sentRow) string { return fmt.Sprint(r.Offset) }},
			{head: "TIMESTAMP", cell: func(r sentRow) string { return timeText(r.Time) }},
		},
	}
}

// produceError says which record did not get through, and why.
func produceError(r *kgo.Record, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	subject := "produce to " + r.Topic
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return failf(exitNotFound, "%s: there is no such topic, and the broker makes none by itself; "+
			"create it with \"sluice topic create %s\"", subject, r.Topic)
	case errors.Is(err, kerr.MessageTooLarge):
		return failf(exitFailed, "%s: a record of %s is too large; raise --max-message-bytes here and "+
			"max.message.bytes of the topic", subject, bytesText(int64(len(r.Key)+len(r.Value))))
	case errors.Is(err, kgo.ErrRecordTimeout):
		return failf(exitUnreachable, "%s: no acknowledgement in time; wait longer with --timeout, or "+
			"look at the broker's log", subject)
	}
	return kafkaf(subject, err, "")
}
