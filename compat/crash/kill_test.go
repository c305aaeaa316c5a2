package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicelog/sluice/compat/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

const (
	topic      = "crash"
	partitions = 4
	producers  = 3
)

// number reads a bound of the soak tier from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}

// TestKillUnderLoad kills the broker at random points while idempotent producers send, and checks
// the whole log afterwards. SLUICE_KILLS and SLUICE_SEED make it longer or repeat it.
func TestKillUnderLoad(t *testing.T) {
	kills := number(t, "SLUICE_KILLS", 40)
	if testing.Short() {
		kills = 3
	}
	seed := uint64(number(t, "SLUICE_SEED", int(time.Now().UnixNano()>>20)))
	t.Logf("kills %d, SLUICE_SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(seed, 1))

	b := cluster.Start(t, cluster.Options{Overrides: []string{
		"sluice.durability=strict", "log.segment.bytes=1048576",
		"sluice.http.listeners=", "auto.create.topics.enable=false",
	}})
	createTopic(t, b.Address())
	load := startLoad(t, b.Address())
	for range kills {
		time.Sleep(time.Duration(20+random.IntN(400)) * time.Millisecond)
		b.Kill()
		b.Restart()
		load.commits.checkOne(t, b.Address())
	}
	load.stop(t)
	log := readAll(t, b.Address())
	for _, fault := range load.history.Check(log) {
		t.Error(fault)
	}
	total := 0
	for _, reads := range log {
		total += len(reads)
	}
	t.Logf("%d records acknowledged, %d in the log", load.history.Acks(), total)
	if load.history.Acks() < 100*kills {
		t.Errorf("only %d records acknowledged over %d kills: the load is too thin to prove anything",
			load.history.Acks(), kills)
	}
}

func client(t *testing.T, address string, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(address), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func createTopic(t *testing.T, address string) {
	t.Helper()
	cl := client(t, address)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// load is the producers and the committer.
type load struct {
	history *History
	commits commits
	quit    chan struct{}
	done    sync.WaitGroup
}

func startLoad(t *testing.T, address string) *load {
	t.Helper()
	l := &load{history: NewHistory(), quit: make(chan struct{})}
	for p := range producers {
		cl := client(t, address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(500), kgo.ProducerBatchMaxBytes(16<<10))
		l.done.Go(func() { l.produce(cl, p) })
	}
	cl := client(t, address)
	l.done.Go(func() { l.commits.run(cl, l.quit) })
	return l
}

func (l *load) produce(cl *kgo.Client, producer int) {
	defer cl.Close()
	padding := make([]byte, 200)
	var next [partitions]int
	for i := 0; ; i++ {
		select {
		case <-l.quit:
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_ = cl.Flush(ctx) // what is not acknowledged by then is of unknown fate
			return
		default:
		}
		r := Record{producer, i % partitions, next[i%partitions]}
		next[i%partitions]++
		l.history.Sent(r)
		value := fmt.Appendf(nil, "%d %d %d ", r.Producer, r.Partition, r.Seq)
		cl.Produce(context.Background(), &kgo.Record{Partition: int32(r.Partition), Value: append(value, padding...)},
			func(kr *kgo.Record, err error) {
				if err == nil {
					l.history.Acked(r, kr.Offset)
				}
			})
		if i%50 == 49 {
			time.Sleep(5 * time.Millisecond) // small batches, many acknowledgements
		}
	}
}

func (l *load) stop(t *testing.T) {
	t.Helper()
	close(l.quit)
	l.done.Wait()
}

// commits is a group whose offset one goroutine moves up by one commit after the other.
type commits struct{ tried, acked atomic.Int64 }

const group = "crash-group"

func (c *commits) run(cl *kgo.Client, quit chan struct{}) {
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for {
		select {
		case <-quit:
			return
		default:
		}
		at := c.tried.Add(1)
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, at, -1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		answer, err := admin.CommitOffsets(ctx, group, offsets)
		cancel()
		if err == nil && answer.Ok() {
			c.acked.Store(at)
		}
	}
}

// checkOne reads the committed offset after a restart (H5).
func (c *commits) checkOne(t *testing.T, address string) {
	t.Helper()
	least := c.acked.Load()
	cl := client(t, address)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		t.Errorf("committed offset after a restart: %v", err)
		return
	}
	found, _ := answer.Lookup(topic, 0)
	if most := c.tried.Load(); found.At < least || found.At > most {
		t.Errorf("committed offset %d after a restart, outside [%d, %d]", found.At, least, most)
	}
}

// readAll reads every partition from its start to the high watermark.
func readAll(t *testing.T, address string) map[int][]Read {
	t.Helper()
	cl := client(t, address, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	log := make(map[int][]Read)
	deadline := time.Now().Add(60 * time.Second)
	for left > 0 && time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		fetches := cl.PollFetches(ctx)
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				t.Fatalf("read partition %d: %v", e.Partition, e.Err)
			}
		}
		fetches.EachRecord(func(kr *kgo.Record) {
			left--
			var r Record
			if _, err := fmt.Sscanf(string(kr.Value), "%d %d %d ", &r.Producer, &r.Partition, &r.Seq); err != nil {
				t.Fatalf("partition %d offset %d is not a record of ours: %v", kr.Partition, kr.Offset, err)
			}
			log[int(kr.Partition)] = append(log[int(kr.Partition)], Read{kr.Offset, r})
		})
	}
	if left > 0 {
		t.Errorf("%d records below the high watermark could not be read", left)
	}
	return log
}
