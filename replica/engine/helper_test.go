package engine

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testNow = 1_700_000_000_000

func partitionID(n byte) kafkaproto.PartitionID {
	return kafkaproto.PartitionID{Topic: kafkaproto.TopicID{7, n}}
}

func partitionName(n byte) kafkaproto.TopicPartition {
	return kafkaproto.TopicPartition{Topic: fmt.Sprintf("topic%d", n)}
}

// rig is an engine on a store in memory whose syncs a test can hold back.
type rig struct {
	t      testing.TB
	fs     *vfs.ErrFS
	clock  *clock.Manual
	store  *store.Store
	engine *Engine

	gate   chan struct{} // each sync of records takes one, unless open
	open   atomic.Bool
	onSync func() // called when one waits
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{
		t: t, fs: vfs.Inject(vfs.Memory()), clock: clock.NewManual(time.UnixMilli(testNow)),
		gate: make(chan struct{}),
	}
	r.open.Store(true)
	logger := slog.New(slog.DiscardHandler)
	var err error
	r.store, err = store.Open(store.Options{
		FS: r.fs, Dir: "/data", Clock: r.clock, Logger: logger, BootID: "boot",
	})
	if err != nil {
		t.Fatal(err)
	}
	r.engine = New(Options{Store: r.store, Clock: r.clock, Logger: logger})
	return r
}

// hold makes the committer wait for release before each sync of records.
func (r *rig) hold() {
	r.open.Store(false)
	r.fs.Hook(func(op vfs.Op, name string) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".log") || op == vfs.OpSyncFS {
			if !r.open.Load() {
				if r.onSync != nil {
					r.onSync()
				}
				<-r.gate
			}
		}
		return nil
	})
}

// letGo ends hold; a sync that waits now goes on.
func (r *rig) letGo() {
	r.open.Store(true)
	select {
	case r.gate <- struct{}{}:
	default:
	}
}

func (r *rig) close() {
	r.t.Helper()
	r.engine.Close()
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) partition(n byte, c store.Config) *Partition {
	r.t.Helper()
	if err := r.engine.Open(Spec{ID: partitionID(n), TP: partitionName(n), Config: c}); err != nil {
		r.t.Fatal(err)
	}
	return r.engine.ByID(partitionID(n))
}

// records builds a batch of n records of the given size.
func records(n, size int) batch.Batch {
	return batchOf(batch.BuilderOptions{}, n, size)
}

func batchOf(o batch.BuilderOptions, n, size int) batch.Batch {
	b := batch.NewBuilder(o)
	for range n {
		b.Add(batch.Record{Timestamp: testNow, Value: make([]byte, size)})
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

func (r *rig) append(p *Partition, b batch.Batch) AppendResult {
	r.t.Helper()
	res, err := p.Append(b, AppendOptions{NowMs: testNow})
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}
