package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// loadOptions is one run of the load generator.
type loadOptions struct {
	Kind        string // produce, consume or e2e
	Address     string
	Topic       string
	Partitions  int
	Size        int           // bytes of a record's value
	Rate        int           // records per second, e2e
	Records     int64         // what the topic holds, consume
	Warm, Spell time.Duration // run before the measured spell, and the spell
	Linger      time.Duration
	PID         int // the broker, whose CPU time is read at both ends of the spell
}

// loadResult is what a run measured.
type loadResult struct {
	Records int64
	Seconds float64
	CPU     float64 // seconds of the broker
	Bytes   int64   // of values
	P50     float64 // end to end, milliseconds
	P99     float64
	P999    float64
}

func (r loadResult) rate() float64     { return float64(r.Records) / r.Seconds }
func (r loadResult) cpuPerGB() float64 { return r.CPU / (float64(r.Bytes) / 1e9) }

// flags puts the options on a command line.
func (o *loadOptions) flags(f *flag.FlagSet) {
	f.StringVar(&o.Kind, "kind", "produce", "produce, consume or e2e")
	f.StringVar(&o.Address, "address", "127.0.0.1:9092", "broker")
	f.StringVar(&o.Topic, "topic", "bench", "topic, which exists")
	f.IntVar(&o.Partitions, "partitions", 1, "its partitions")
	f.IntVar(&o.Size, "size", 1024, "bytes of a value")
	f.IntVar(&o.Rate, "rate", 1000, "records per second, for e2e")
	f.Int64Var(&o.Records, "records", 0, "records in the topic, for consume")
	f.DurationVar(&o.Warm, "warm", 2*time.Second, "time before the measured spell")
	f.DurationVar(&o.Spell, "spell", 8*time.Second, "measured time")
	f.DurationVar(&o.Linger, "linger", 5*time.Millisecond, "producer's linger")
	f.IntVar(&o.PID, "pid", 0, "process whose CPU time is measured")
}

// arguments is the command line that gives o back.
func (o loadOptions) arguments() []string {
	return []string{
		"load", "-kind", o.Kind, "-address", o.Address, "-topic", o.Topic,
		"-partitions", fmt.Sprint(o.Partitions), "-size", fmt.Sprint(o.Size), "-rate", fmt.Sprint(o.Rate),
		"-records", fmt.Sprint(o.Records), "-warm", o.Warm.String(), "-spell", o.Spell.String(),
		"-linger", o.Linger.String(), "-pid", fmt.Sprint(o.PID),
	}
}

// runLoad is the load generator's process: it prints one loadResult as JSON.
func runLoad(args []string, out io.Writer) error {
	var o loadOptions
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	o.flags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	run := map[string]func(loadOptions) (loadResult, error){"produce": produce, "consume": consume, "e2e": endToEnd, "fill": fill}[o.Kind]
	if run == nil {
		return fmt.Errorf("no kind of load %q", o.Kind)
	}
	r, err := run(o)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Kind, err)
	}
	return json.NewEncoder(out).Encode(r)
}

// values are a few random ones: a broker that looked at them could not make them smaller.
func (o loadOptions) values() [][]byte {
	random := rand.NewChaCha8([32]byte{1})
	all := make([][]byte, 64)
	for i := range all {
		all[i] = make([]byte, o.Size)
		_, _ = random.Read(all[i]) // ChaCha8 never fails
	}
	return all
}

func (o loadOptions) producer(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(o.Address), kgo.DefaultProduceTopic(o.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(o.Linger),
	}, opts...)...)
}

// spell measures records and the broker's CPU time between begin and end.
type spell struct {
	o     loadOptions
	count *atomic.Int64
	begun time.Time
	first int64
	cpu   float64
}

func (o loadOptions) begin(count *atomic.Int64) (spell, error) {
	cpu, err := cpuSeconds(o.PID)
	return spell{o, count, time.Now(), count.Load(), cpu}, err
}

func (s spell) end() (loadResult, error) {
	n, took := s.count.Load()-s.first, time.Since(s.begun)
	cpu, err := cpuSeconds(s.o.PID)
	return loadResult{Records: n, Seconds: took.Seconds(), CPU: cpu - s.cpu, Bytes: n * int64(s.o.Size)}, err
}

// produce sends as fast as the client can, round robin, and counts acknowledgements.
func produce(o loadOptions) (loadResult, error) {
	cl, err := o.producer()
	if err != nil {
		return loadResult{}, err
	}
	defer cl.Close()
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		promise := func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			acked.Add(1)
		}
		for values := o.values(); ; {
			select {
			case <-stop:
				return
			default:
			}
			for _, v := range values {
				cl.Produce(context.Background(), &kgo.Record{Value: v}, promise)
			}
		}
	})
	time.Sleep(o.Warm)
	s, err := o.begin(&acked)
	if err != nil {
		return loadResult{}, err
	}
	time.Sleep(o.Spell)
	r, err := s.end()
	close(stop)
	sending.Wait()
	if err == nil {
		err = cl.Flush(context.Background())
	}
	if e := failed.Load(); e != nil {
		err = *e
	}
	return r, err
}

// fill puts Records into the topic.
func fill(o loadOptions) (loadResult, error) {
	cl, err := o.producer()
	if err != nil {
		return loadResult{}, err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	values := o.values()
	for i := range o.Records {
		cl.Produce(context.Background(), &kgo.Record{Value: values[i%int64(len(values))]}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	err = cl.Flush(context.Background())
	if e := failed.Load(); e != nil {
		err = *e
	}
	return loadResult{Records: o.Records, Seconds: 1, Bytes: 1}, err
}

// consume reads the whole topic from its first offset, again and again with a new client each time,
// until the spell is over. A first reading warms up.
func consume(o loadOptions) (loadResult, error) {
	var read atomic.Int64
	if err := o.readAll(&read); err != nil {
		return loadResult{}, err
	}
	s, err := o.begin(&read)
	for err == nil && time.Since(s.begun) < o.Spell {
		err = o.readAll(&read)
	}
	if err != nil {
		return loadResult{}, err
	}
	return s.end()
}

func (o loadOptions) readAll(read *atomic.Int64) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Address), kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for left := o.Records; left > 0; {
		fetches := cl.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		n := int64(fetches.NumRecords())
		left -= n
		read.Add(n)
	}
	return nil
}

// endToEnd sends at a rate, without linger, and takes the time from Produce to the poll that gives
// the record back, in one process and thus by one clock.
func endToEnd(o loadOptions) (loadResult, error) {
	reader, err := kgo.NewClient(kgo.SeedBrokers(o.Address), kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return loadResult{}, err
	}
	defer reader.Close()
	o.Linger = 0
	cl, err := o.producer()
	if err != nil {
		return loadResult{}, err
	}
	defer cl.Close()
	var read atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var failed atomic.Pointer[error]
	var sending sync.WaitGroup
	sending.Go(func() { o.sendAtRate(ctx, cl, &failed) })
	if _, err := o.latencies(reader, &read, o.Warm); err != nil {
		return loadResult{}, err
	}
	s, err := o.begin(&read)
	if err != nil {
		return loadResult{}, err
	}
	took, err := o.latencies(reader, &read, o.Spell)
	if err != nil {
		return loadResult{}, err
	}
	r, err := s.end()
	cancel()
	sending.Wait()
	if e := failed.Load(); e != nil {
		err = *e
	}
	slices.Sort(took)
	r.P50, r.P99, r.P999 = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999)
	return r, err
}

// sendAtRate sends what is due about every millisecond. A record carries the moment at which it is
// handed to the client, so that a late wake-up of this process is not held against the broker.
func (o loadOptions) sendAtRate(ctx context.Context, cl *kgo.Client, failed *atomic.Pointer[error]) {
	values, began, sent := o.values(), time.Now(), 0
	for ctx.Err() == nil {
		for due := int(time.Since(began).Seconds() * float64(o.Rate)); sent < due; sent++ {
			v := slices.Clone(values[sent%len(values)])
			binary.BigEndian.PutUint64(v, uint64(time.Now().UnixNano()))
			cl.Produce(context.Background(), &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
		}
		time.Sleep(500 * time.Microsecond)
	}
	_ = cl.Flush(context.Background()) // what failed has told so
}

// latencies reads for a while and returns the milliseconds that each record was under way.
func (o loadOptions) latencies(cl *kgo.Client, read *atomic.Int64, d time.Duration) ([]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var took []float64
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return took, nil
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		now := time.Now().UnixNano()
		fetches.EachRecord(func(r *kgo.Record) {
			took = append(took, float64(now-int64(binary.BigEndian.Uint64(r.Value)))/1e6)
		})
		read.Add(int64(fetches.NumRecords()))
	}
}

// quantile of sorted values, 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
