package group

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// OffsetsTopic is the internal topic that holds groups and offsets, by Kafka's name.
const OffsetsTopic = "__consumer_offsets"

// Config is what the operator may set; DefaultConfig gives Kafka's values.
type Config struct {
	MinSessionMs        int32 // group.min.session.timeout.ms
	MaxSessionMs        int32 // group.max.session.timeout.ms
	InitialDelayMs      int32 // group.initial.rebalance.delay.ms
	MaxSize             int   // group.max.size
	NewMemberJoinMs     int32 // how long a newcomer's join may take; a constant in Kafka
	OffsetRetentionMs   int64 // offsets.retention.minutes
	RetentionCheckMs    int64 // offsets.retention.check.interval.ms
	MaxMetadataBytes    int   // offset.metadata.max.bytes, in UTF-16 units as Kafka counts it
	MaxGroupRecordBytes int   // bound of a group's record: message.max.bytes of the topic
	MaxPendingPerGroup  int   // ids given out and not yet used (KIP-394) that a group keeps
	CommitTimeoutMs     int64 // offsets.commit.timeout.ms, for every answer
}

// DefaultConfig gives Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		MinSessionMs: 6_000, MaxSessionMs: 1_800_000,
		InitialDelayMs: 3_000, MaxSize: 1<<31 - 1, NewMemberJoinMs: 300_000,
		OffsetRetentionMs: 7 * 24 * 3600 * 1000, RetentionCheckMs: 600_000,
		MaxMetadataBytes: 4096, MaxGroupRecordBytes: 1_000_000, MaxPendingPerGroup: 10_000,
		CommitTimeoutMs: 5_000,
	}
}

// Topics is one immutable generation of the cluster's topics.
type Topics interface {
	// Topic finds a topic by name.
	Topic(name string) (id kafkaproto.TopicID, partitions int32, ok bool)
	// TopicName finds a topic's name by its id.
	TopicName(id kafkaproto.TopicID) (string, bool)
}

// Client is who sends a request.
type Client struct {
	ID   string // client id
	Host string // address as Kafka prints it: /127.0.0.1
}

// Options is what a Service is made of.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	Config Config
	// Topics gives the newest generation of the topics.
	Topics func() Topics
	// Open finds the log of a partition of OffsetsTopic.
	Open func(partition int32) (coord.Log, error)
	// EnsureTopic creates OffsetsTopic and returns when its partitions can be opened. It may
	// block: the service calls it on a goroutine of its own, once at a time.
	EnsureTopic func() error
	// Random draws member ids; nil is crypto/rand.
	Random io.Reader
	// Workers run the shards; 0 runs them, and EnsureTopic, on the caller.
	Workers int
}

// Service is the group coordinator as the API handlers see it. Every method answers through its
// reply function, exactly once, perhaps before it returns and perhaps much later on another
// goroutine. A request's memory may be used until then; what is kept longer is copied.
type Service struct {
	o   Options
	log *slog.Logger
	rt  *coord.Runtime[input, any]
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		creating bool
		closed   bool
		waiting  []func(error) // for the creation of OffsetsTopic
	}
}

// New makes the service; Start loads what there is.
func New(o Options) *Service {
	if o.Random == nil {
		o.Random = rand.Reader
	}
	s := &Service{o: o, log: o.Logger.With("component", "group")}
	s.rt = coord.New(coord.Options[input, any]{
		Clock: o.Clock, Logger: s.log, Name: "group", Workers: o.Workers, Open: o.Open,
		NewMachine:    func(int32) coord.Machine[input, any] { return NewMachine(o.Config) },
		CommitTimeout: time.Duration(o.Config.CommitTimeoutMs) * time.Millisecond,
	})
	return s
}

// Start loads every partition of OffsetsTopic, so that sessions run out and groups are listed
// although nobody asks for them.
func (s *Service) Start() {
	n, _ := s.partitions()
	for p := range n {
		s.rt.Load(p)
	}
}

// Close answers who waits and stops the workers.
func (s *Service) Close() {
	s.mu.Lock()
	s.mu.closed = true
	waiting := s.mu.waiting
	s.mu.waiting = nil
	s.mu.Unlock()
	for _, done := range waiting {
		done(errClosing)
	}
	s.rt.Close()
	s.wg.Wait()
}

// Lead tells that this broker leads a partition of OffsetsTopic from now on: its groups are loaded.
func (s *Service) Lead(partition int32) { s.rt.Load(partition) }

// Resign tells that it leads it no longer: who asks for its groups is sent on.
func (s *Service) Resign(partition int32) {
	s.rt.Unload(partition, kafkaproto.Faultf(kerr.NotCoordinator, "another broker coordinates the groups of %s-%d", OffsetsTopic, partition))
}

// Counters are the runtime's counters: loads, appends, drops.
func (s *Service) Counters() *coord.Counters { return &s.rt.Counters }

// errClosing tells clients to look for the coordinator elsewhere.
var errClosing = kafkaproto.Faultf(kerr.NotCoordinator, "the group coordinator is shutting down")

// partitions is the number of partitions of OffsetsTopic; false when it is not there.
func (s *Service) partitions() (int32, bool) {
	_, n, ok := s.o.Topics().Topic(OffsetsTopic)
	return n, ok && n > 0
}

// PartitionOf is the partition of OffsetsTopic that keeps the group, as Kafka chooses it: Java's
// hash of the id's UTF-16 units, without its sign.
func PartitionOf(groupID string, partitions int32) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(groupID)) {
		h = 31*h + int32(u)
	}
	if h == -1<<31 {
		h = 0 // it has no positive counterpart
	}
	return max(h, -h) % partitions
}

// Ready calls done when OffsetsTopic exists, creating it if need be; an error carries
// COORDINATOR_NOT_AVAILABLE.
func (s *Service) Ready(done func(error)) {
	if _, ok := s.partitions(); ok {
		done(nil)
		return
	}
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		done(errClosing)
		return
	}
	s.mu.waiting = append(s.mu.waiting, done)
	begin := !s.mu.creating
	s.mu.creating = true
	if begin && s.o.Workers > 0 {
		s.wg.Go(s.create)
		begin = false
	}
	s.mu.Unlock()
	if begin {
		s.create()
	}
}

// create makes OffsetsTopic and tells who waits for it.
func (s *Service) create() {
	err := s.o.EnsureTopic()
	if _, ok := s.partitions(); err == nil && !ok {
		err = fmt.Errorf("%s is not in the metadata after its creation", OffsetsTopic)
	}
	if err != nil {
		s.log.Warn("internal topic cannot be created", "topic", OffsetsTopic, "err", err)
		err = kafkaproto.Faultf(kerr.CoordinatorNotAvailable,
			"%s cannot be created: %v", OffsetsTopic, err)
	}
	s.mu.Lock()
	waiting := s.mu.waiting
	s.mu.waiting, s.mu.creating = nil, false
	s.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// ask submits an input for a group that has to be there already. Without OffsetsTopic there are no
// groups, and an empty machine knows the answer.
func (s *Service) ask(group string, in input, done func(any, error)) {
	if n, ok := s.partitions(); ok {
		s.rt.Submit(PartitionOf(group, n), in, done)
		return
	}
	var e coord.Effects[any]
	NewMachine(s.o.Config).Step(coord.Now{}, 1, in, &e)
	if len(e.Entries) != 0 || len(e.Replies) != 1 {
		panic(fmt.Sprintf("%T of group %q without a log: %d entries, %d replies",
			in, group, len(e.Entries), len(e.Replies)))
	}
	done(e.Replies[0].Out, nil)
}

// tell submits an input that may make a group, after OffsetsTopic if need be.
func (s *Service) tell(group string, in input, done func(any, error)) {
	s.Ready(func(err error) {
		n, ok := s.partitions()
		if err == nil && !ok {
			err = kafkaproto.Faultf(kerr.CoordinatorNotAvailable, "%s was deleted", OffsetsTopic)
		}
		if err != nil {
			done(nil, err)
			return
		}
		s.rt.Submit(PartitionOf(group, n), in, done)
	})
}

// gather runs n parts and calls all when the last is done.
func gather(n int, part func(i int, done func()), all func()) {
	if n == 0 {
		all()
		return
	}
	var mu sync.Mutex
	left := n
	for i := range n {
		part(i, func() {
			mu.Lock()
			left--
			last := left == 0
			mu.Unlock()
			if last {
				all()
			}
		})
	}
}

// dropRetry is the wait before the removal of a deleted topic's offsets is tried again on a shard
// that was loading, and dropTries how often.
const (
	dropRetry = time.Second
	dropTries = 600
)

// TopicDeleted removes the offsets of a deleted topic from all groups. The caller has a committed
// delete that names the id. When OffsetsTopic itself is deleted all groups are gone with it.
func (s *Service) TopicDeleted(name string, id kafkaproto.TopicID) {
	if name == OffsetsTopic {
		for _, p := range s.rt.Shards() {
			s.rt.Unload(p, kafkaproto.Faultf(kerr.NotCoordinator, "%s was deleted", OffsetsTopic))
		}
		return
	}
	s.dropOffsets(&dropOffsetsInput{
		topic: name,
		gone: func(_ string, committed kafkaproto.TopicID) bool {
			return committed == id || committed.IsZero()
		},
	})
}

// Sweep removes the offsets of topics that are not in topics, which must be no older than the
// offsets: the node calls it once after a start, for deletions that a crash cut short.
func (s *Service) Sweep(topics Topics) {
	s.dropOffsets(&dropOffsetsInput{
		gone: func(name string, committed kafkaproto.TopicID) bool {
			id, _, ok := topics.Topic(name)
			return !ok || id != committed && !committed.IsZero()
		},
	})
}

func (s *Service) dropOffsets(in *dropOffsetsInput) {
	n, _ := s.partitions()
	for p := range n {
		s.dropOn(p, in, dropTries)
	}
}

func (s *Service) dropOn(partition int32, in *dropOffsetsInput, tries int) {
	s.rt.Submit(partition, in, func(out any, err error) {
		if n, ok := out.(int); ok && err == nil {
			if n > 0 {
				s.log.Info("offsets of a deleted topic removed",
					"topic", in.topic, "partition", partition, "offsets", n)
			}
			return
		}
		s.mu.Lock()
		closed := s.mu.closed
		s.mu.Unlock()
		if !closed && tries > 0 {
			s.o.Clock.AfterFunc(dropRetry, func() { s.dropOn(partition, in, tries-1) })
		}
	})
}
