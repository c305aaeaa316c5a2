package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
)

// Options is what an engine runs on.
type Options struct {
	Store  *store.Store
	Clock  clock.Clock
	Logger *slog.Logger
}

// Engine holds the partitions that this broker leads.
type Engine struct {
	store *store.Store
	clock clock.Clock
	log   *slog.Logger

	mu struct {
		sync.RWMutex
		byTP map[kafkaproto.TopicPartition]*Partition
		byID map[kafkaproto.PartitionID]*Partition
		shut bool
	}
}

// New makes an engine without partitions; the caller opens them from its metadata.
func New(o Options) *Engine {
	e := &Engine{store: o.Store, clock: o.Clock, log: o.Logger.With("component", "replica")}
	e.mu.byTP = make(map[kafkaproto.TopicPartition]*Partition)
	e.mu.byID = make(map[kafkaproto.PartitionID]*Partition)
	return e
}

// Spec names one partition to open.
type Spec struct {
	ID     kafkaproto.PartitionID
	TP     kafkaproto.TopicPartition
	Config store.Config
}

// Open opens or makes the partitions and leads them, with one journal commit for all. A partition
// whose log is damaged is opened offline: it answers errors, and the others go on. So do they when
// one cannot be opened at all; the error names it.
func (e *Engine) Open(specs ...Spec) error {
	opened := make([]*Partition, 0, len(specs))
	logs := make([]*store.Log, 0, len(specs))
	var failed []error
	for _, s := range specs {
		if e.ByID(s.ID) != nil {
			continue
		}
		l, err := e.store.OpenLog(s.ID, s.TP, s.Config)
		if err != nil {
			failed = append(failed, fmt.Errorf("open %s: %w", s.TP, err))
			continue
		}
		opened = append(opened, newPartition(l))
		if l.Offline() == nil {
			logs = append(logs, l)
		}
	}
	if err := e.store.StartSolo(logs...); err != nil {
		return errors.Join(append(failed, fmt.Errorf("lead %d partitions: %w", len(logs), err))...)
	}
	for _, p := range opened {
		p.log.Observe(p.observe)
		p.advance()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.shut {
		return errShut
	}
	for _, p := range opened {
		e.mu.byTP[p.tp] = p
		e.mu.byID[p.id] = p
	}
	return errors.Join(failed...)
}

var errShut = fmt.Errorf("engine is closed: %w", kerr.NotLeaderForPartition)

// Get finds a partition by its topic's name; nil when this broker does not lead it.
func (e *Engine) Get(topic string, partition int32) *Partition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.mu.byTP[kafkaproto.TopicPartition{Topic: topic, Partition: partition}]
}

// ByID finds a partition by its topic's id; nil when this broker does not lead it.
func (e *Engine) ByID(id kafkaproto.PartitionID) *Partition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.mu.byID[id]
}

// All lists the partitions in no particular order.
func (e *Engine) All() []*Partition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*Partition, 0, len(e.mu.byTP))
	for _, p := range e.mu.byTP {
		all = append(all, p)
	}
	return all
}

// Delete takes the partition out of service, fails who waits on it, and gives its files to the
// store to remove. The caller has the committed delete that names the topic id.
func (e *Engine) Delete(id kafkaproto.PartitionID) error {
	e.mu.Lock()
	p := e.mu.byID[id]
	if p != nil {
		delete(e.mu.byID, id)
		delete(e.mu.byTP, p.tp)
	}
	e.mu.Unlock()
	if p == nil {
		return nil
	}
	p.shut(kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "partition %s was deleted", p.tp))
	if err := e.store.DeleteLog(id); err != nil {
		return fmt.Errorf("delete %s: %w", p.tp, err)
	}
	return nil
}

// Close fails every wait; the store is closed by who opened it.
func (e *Engine) Close() {
	e.mu.Lock()
	e.mu.shut = true
	e.mu.Unlock()
	for _, p := range e.All() {
		p.shut(kafkaproto.Faultf(kerr.NotLeaderForPartition, "the broker is shutting down"))
	}
}

// errOffline turns a log's failure into what a client is told: retriable, and never
// UNKNOWN_SERVER_ERROR.
func errOffline(tp kafkaproto.TopicPartition, cause error) error {
	var k *kerr.Error
	if errors.As(cause, &k) {
		return cause
	}
	return fmt.Errorf("partition %s is offline: %w", tp, errors.Join(cause, kerr.KafkaStorageError))
}
