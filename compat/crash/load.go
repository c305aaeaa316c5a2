package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// group is the one that the members form.
const group = "crash-members"

// load is all the clients of a run.
type load struct {
	address string
	places  []Place
	r       *recorder

	writing  context.Context // ends the writers
	reading  context.Context // ends members and auditors
	stopping []context.CancelFunc
	writers  sync.WaitGroup
	readers  sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

// startLoad starts writers, members and auditors against topics that exist.
func startLoad(address string, places []Place, seed uint64, writers, members int) *load {
	l := &load{address: address, places: places, r: newRecorder()}
	var stopWriting, stopReading context.CancelFunc
	l.writing, stopWriting = context.WithCancel(context.Background())
	l.reading, stopReading = context.WithCancel(context.Background())
	l.stopping = []context.CancelFunc{stopWriting, stopReading}
	for i := range writers {
		w := &writer{l: l, id: int32(i), rng: rand.New(rand.NewPCG(seed, uint64(i))), next: map[Place]int64{}}
		if i == 0 {
			w.life = 300
		}
		l.writers.Go(w.run)
	}
	for range members {
		l.readers.Go((&member{l: l, sessions: map[Place]*Session{}}).run)
	}
	l.readers.Go(l.auditCommitted)
	l.readers.Go(l.auditLatest)
	return l
}

// stopWriters ends the writers and waits until every record has its answer.
func (l *load) stopWriters() {
	l.stopping[0]()
	l.writers.Wait()
}

// stop ends everything and returns what the clients failed with.
func (l *load) stop() []error {
	l.stopWriters()
	l.stopping[1]()
	l.readers.Wait()
	return l.errs
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < 20 {
		l.errs = append(l.errs, fmt.Errorf(format, args...))
	}
}

// client makes a franz-go client that comes back quickly after a crash of the broker.
func (l *load) client(o ...kgo.Opt) (*kgo.Client, error) {
	if strings.Contains(l.address, ",") {
		// A broker that is paused keeps its connections: who waits for it goes on only after this.
		o = append(o, kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))
	}
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(l.address, ",")...),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryTimeout(30 * time.Second),
	}, o...)...)
}

// writer is an idempotent producer to all places. With a life it takes a new client, and with it a
// new producer id, after so many records.
type writer struct {
	l    *load
	id   int32
	life int
	rng  *rand.Rand
	next map[Place]int64
}

func (w *writer) run() {
	for w.l.writing.Err() == nil {
		if err := w.live(); err != nil {
			w.l.fail("writer %d: %w", w.id, err)
			return
		}
	}
}

// live is the life of one client. Records wait in it while the broker is away; Produce blocks once
// MaxBufferedRecords do.
func (w *writer) live() error {
	cl, err := w.l.client(
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(2000), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(200), kgo.UnknownTopicRetries(-1),
		kgo.RequiredAcks(kgo.AllISRAcks()),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for n := 0; w.l.writing.Err() == nil && (w.life == 0 || n < w.life); n++ {
		p := w.l.places[w.rng.IntN(len(w.l.places))]
		id := ID{w.id, w.next[p]}
		w.next[p]++
		noted := w.l.r.sending(p, id)
		cl.Produce(context.Background(), &kgo.Record{
			Topic: p.Topic, Partition: p.Partition, Value: encode(p, id, 20+w.rng.IntN(380)),
		}, func(r *kgo.Record, err error) {
			w.l.r.sent(noted, r.Offset, err)
			if err != nil {
				w.l.fail("writer %d: record %d of %s: %w", w.id, id.Seq, p, err)
			}
		})
		if w.rng.IntN(8) == 0 {
			time.Sleep(time.Duration(w.rng.IntN(12)) * time.Millisecond)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return cl.Flush(ctx)
}

// member reads in the group and commits what it read, a poll at a time. Its sessions are its
// goroutine's alone: the client calls back for a rebalance only between polls.
type member struct {
	l        *load
	sessions map[Place]*Session
}

func (m *member) run() {
	topics := map[string]bool{}
	for _, p := range m.l.places {
		topics[p.Topic] = true
	}
	names := make([]string, 0, len(topics))
	for t := range topics {
		names = append(names, t)
	}
	cl, err := m.l.client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(names...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			each(got, func(p Place) { m.sessions[p] = m.l.r.session(p) })
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			each(gone, func(p Place) { delete(m.sessions, p) })
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			each(gone, func(p Place) { delete(m.sessions, p) })
		}),
	)
	if err != nil {
		m.l.fail("member: %w", err)
		return
	}
	defer cl.CloseAllowingRebalance()
	for m.l.reading.Err() == nil {
		fetches := cl.PollRecords(m.l.reading, 500)
		offsets := m.read(fetches)
		if len(offsets) > 0 {
			m.commit(cl, offsets)
		}
		cl.AllowRebalance()
	}
}

func each(of map[string][]int32, f func(Place)) {
	for topic, partitions := range of {
		for _, p := range partitions {
			f(Place{topic, p})
		}
	}
}

// read notes the records of a poll and returns the offsets to commit.
func (m *member) read(fetches kgo.Fetches) map[string]map[int32]kgo.EpochOffset {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	m.l.r.mu.Lock()
	defer m.l.r.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		p := Place{r.Topic, r.Partition}
		s := m.sessions[p]
		if s == nil {
			m.l.fail("member: a record of %s, which it does not own", p)
			return
		}
		s.Entries = append(s.Entries, decode(p, r.Offset, r.Value))
		if offsets[r.Topic] == nil {
			offsets[r.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[r.Topic][r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	})
	return offsets
}

// commit sends the offsets and notes what became of each.
func (m *member) commit(cl *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset) {
	start := m.l.r.tick()
	stored := map[Place]bool{}
	ctx, cancel := context.WithTimeout(m.l.reading, 20*time.Second)
	defer cancel()
	cl.CommitOffsetsSync(ctx, offsets, storedIn(stored))
	end := m.l.r.tick()
	var commits []Commit
	for topic, partitions := range offsets {
		for partition, o := range partitions {
			p := Place{topic, partition}
			commits = append(commits, Commit{p, o.Offset, start, end, stored[p]})
		}
	}
	m.l.r.committed(commits...)
}

// auditCommitted asks for the group's committed offsets, again and again.
func (l *load) auditCommitted() {
	l.audit("committed offsets", &l.r.history.Committed, func(ctx context.Context, a *kadm.Client, told func(Place, int64)) error {
		offsets, err := a.FetchOffsets(ctx, group)
		if err != nil {
			return err
		}
		for _, p := range l.places {
			at := int64(-1)
			if o, ok := offsets.Lookup(p.Topic, p.Partition); ok {
				if o.Err != nil {
					continue
				}
				at = o.At
			}
			told(p, at)
		}
		return nil
	})
}

// auditLatest asks for the ends of the places, again and again.
func (l *load) auditLatest() {
	l.audit("latest offsets", &l.r.history.Latest, func(ctx context.Context, a *kadm.Client, told func(Place, int64)) error {
		offsets, err := a.ListEndOffsets(ctx, topicsOf(l.places)...)
		if err != nil {
			return err
		}
		for _, p := range l.places {
			if o, ok := offsets.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
				told(p, o.Offset)
			}
		}
		return nil
	})
}

// audit calls ask until the readers are stopped. An answer with an error tells nothing; none at all
// over a whole run is a failure, or the rules that live on answers would hold for want of them.
func (l *load) audit(what string, to *[]Answer, ask func(context.Context, *kadm.Client, func(Place, int64)) error) {
	cl, err := l.client()
	if err != nil {
		l.fail("auditor: %w", err)
		return
	}
	defer cl.Close()
	admin, heard := kadm.NewClient(cl), 0
	for l.reading.Err() == nil {
		ctx, cancel := context.WithTimeout(l.reading, 10*time.Second)
		start := l.r.tick()
		var told []Answer
		err := ask(ctx, admin, func(p Place, at int64) { told = append(told, Answer{Place: p, Offset: at, Start: start}) })
		end := l.r.tick()
		cancel()
		if err == nil {
			for i := range told {
				told[i].End = end
			}
			heard += len(told)
			l.r.audit(to, told...)
		}
		time.Sleep(15 * time.Millisecond)
	}
	if heard == 0 {
		l.fail("auditor: never told any %s", what)
	}
}
