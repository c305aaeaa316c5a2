package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestOpenGoesOn opens what can be opened when one of many cannot.
func TestOpenGoesOn(t *testing.T) {
	r := newRig(t)
	defer r.close()
	var specs []Spec
	for n := range byte(3) {
		specs = append(specs, Spec{ID: partitionID(n), TP: partitionName(n)})
	}
	if err := r.fs.MkdirAll("/data/topic1-0", 0o755); err != nil { // in the way
		t.Fatal(err)
	}
	if err := r.engine.Open(specs...); err == nil {
		t.Fatal("no error for the directory in the way")
	}
	for n := range byte(3) {
		p := r.engine.Get(partitionName(n).Topic, 0)
		if (p != nil) != (n != 1) {
			t.Fatalf("partition %d: %v", n, p)
		}
		if p == nil {
			continue
		}
		r.append(p, records(1, 10))
		if p != r.engine.ByID(p.ID()) || p.TP() != partitionName(n) {
			t.Fatalf("partition %d is found as %v", n, p.TP())
		}
	}
	if err := r.engine.Open(specs[0]); err != nil || len(r.engine.All()) != 2 {
		t.Fatalf("opened again: %v, %d partitions", err, len(r.engine.All()))
	}
	r.engine.Close()
	if err := r.engine.Open(Spec{ID: partitionID(9), TP: partitionName(9)}); err == nil {
		t.Fatal("a closed engine opened a partition")
	}
}

// TestNoSpace refuses what does not fit with KAFKA_STORAGE_ERROR; reads go on, nothing of the batch
// shows, and writes resume when there is space (ruling 6).
func TestNoSpace(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{})
	r.append(p, records(3, 10))
	r.fs.SetBudget(100)
	_, err := p.Append(records(1, 1000), AppendOptions{NowMs: testNow})
	if kafkaproto.Code(err) != kerr.KafkaStorageError.Code || !vfs.IsNoSpace(err) {
		t.Fatalf("append on a full disk: %v", err)
	}
	if p.Offline() != nil || p.LogEnd() != 3 || p.HighWatermark() != 3 {
		t.Fatalf("after it: offline %v, end %d, high watermark %d", p.Offline(), p.LogEnd(), p.HighWatermark())
	}
	rd, err := p.Read(0, 1<<20, ReadUncommitted, true)
	if err != nil || rd.Range.Next != 3 {
		t.Fatalf("read: %v, next %d", err, rd.Range.Next)
	}
	rd.Range.Release()
	r.fs.Clear()
	if res := r.append(p, records(1, 1000)); res.BaseOffset != 3 {
		t.Fatalf("resumed at %d", res.BaseOffset)
	}
}

// TestBrokenLogFailsWaits takes a partition offline whose failed write cannot be undone: those who
// wait for earlier batches are told, and so is who comes later.
func TestBrokenLogFailsWaits(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{Strict: true})
	r.hold()
	defer r.letGo()
	res := r.append(p, records(1, 10))
	told := make(chan error, 1)
	p.WhenCommitted(res.End, func(err error) { told <- err })
	wakes := make(chan struct{}, 1)
	w := NewWatcher(func() { wakes <- struct{}{} })
	p.Watch(w)
	r.fs.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.log", Err: syscall.EIO, Short: 20})
	r.fs.Add(vfs.Rule{Op: vfs.OpTruncate, Glob: "*.log", Err: syscall.EIO})
	_, err := p.Append(records(1, 10), AppendOptions{NowMs: testNow})
	wantStorage := func(what string, err error) {
		t.Helper()
		if kafkaproto.Code(err) != kerr.KafkaStorageError.Code {
			t.Fatalf("%s: %v", what, err)
		}
	}
	wantStorage("append", err)
	wantStorage("wait", <-told)
	<-wakes
	wantStorage("offline", p.Offline())
	p.WhenCommitted(res.End, func(err error) { told <- err })
	wantStorage("later wait", <-told)
	_, err = p.Read(0, 100, ReadUncommitted, true)
	wantStorage("read", err)
	_, err = p.DeleteRecords(-1)
	wantStorage("delete records", err)
	_, err = p.MaxTimestamp(ReadUncommitted)
	wantStorage("max timestamp", err)
	_, err = p.OffsetForTime(0, ReadUncommitted)
	wantStorage("offset for time", err)
	p.Unwatch(w)
}

// TestSyncErrorStopsAll fails the waits of every partition when a sync fails: the directory has
// stopped (ruling 5), and no offset that it did not cover is ever called committed.
func TestSyncErrorStopsAll(t *testing.T) {
	r := newRig(t)
	defer func() {
		r.engine.Close()
		_ = r.store.Close()
	}()
	a, b := r.partition(1, store.Config{Strict: true}), r.partition(2, store.Config{Strict: true})
	r.fs.Add(vfs.Rule{Op: vfs.OpSync, Glob: "*.log", Times: -1})
	r.fs.Add(vfs.Rule{Op: vfs.OpSyncFS, Times: -1})
	told := make(chan error, 2)
	for _, p := range []*Partition{a, b} {
		res, err := p.Append(records(1, 10), AppendOptions{NowMs: testNow})
		if err != nil { // the other's sync may have failed already
			told <- err
			continue
		}
		p.WhenCommitted(res.End, func(err error) { told <- err })
	}
	for range 2 {
		if err := <-told; kafkaproto.Code(err) != kerr.KafkaStorageError.Code {
			t.Fatalf("wait: %v", err)
		}
	}
	if a.HighWatermark() != 0 || b.HighWatermark() != 0 {
		t.Fatal("an unsynced offset is committed")
	}
}

// txn is one producer's batch or marker.
type txn struct {
	pid    kafkaproto.ProducerID
	marker bool
	commit bool
}

func (r *rig) txn(p *Partition, seq map[kafkaproto.ProducerID]int32, x txn) AppendResult {
	r.t.Helper()
	if x.marker {
		kind := batch.Abort
		if x.commit {
			kind = batch.Commit
		}
		return r.append(p, batch.Control(kind, 1, x.pid, 0, testNow))
	}
	b := batchOf(batch.BuilderOptions{
		Producer: &batch.Producer{ID: x.pid, BaseSequence: seq[x.pid]}, Transactional: true,
	}, 2, 100)
	seq[x.pid] += 2
	return r.append(p, b)
}

// TestRow24And25 lets two transactions abort and one commit. A read_committed reader stops at the
// first open one, and is told of exactly the aborted transactions that touch the data it got:
// those that end at or behind its offset and begin before the end of the data.
func TestRow24And25(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{})
	seq := make(map[kafkaproto.ProducerID]int32)
	steps := []txn{
		{pid: 1},                             // 0-1
		{pid: 2},                             // 2-3
		{pid: 1, marker: true},               // 4: aborts [0,4]
		{pid: 3},                             // 5-6
		{pid: 2, marker: true, commit: true}, // 7
		{pid: 3, marker: true},               // 8: aborts [5,8]
		{pid: 4},                             // 9-10, stays open
	}
	wantLSO := []kafkaproto.Offset{0, 0, 2, 2, 5, 9, 9}
	for i, x := range steps {
		r.txn(p, seq, x)
		if got := p.LastStable(); got != wantLSO[i] {
			t.Fatalf("last stable offset %d after step %d, want %d", got, i, wantLSO[i])
		}
	}
	one := len(batchOf(batch.BuilderOptions{}, 2, 100)) + 10
	for _, x := range []struct {
		off      kafkaproto.Offset
		maxBytes int
		iso      Isolation
		next     kafkaproto.Offset
		aborted  []store.AbortedTxn
	}{
		{0, 1 << 20, ReadUncommitted, 11, nil},
		{0, 1 << 20, ReadCommitted, 9, []store.AbortedTxn{{ProducerID: 1, FirstOffset: 0}, {ProducerID: 3, FirstOffset: 5}}},
		{0, one, ReadCommitted, 2, []store.AbortedTxn{{ProducerID: 1, FirstOffset: 0}}},
		{2, one, ReadCommitted, 4, []store.AbortedTxn{{ProducerID: 1, FirstOffset: 0}}},
		{4, 1, ReadCommitted, 5, []store.AbortedTxn{{ProducerID: 1, FirstOffset: 0}}},
		{5, 1, ReadCommitted, 7, []store.AbortedTxn{{ProducerID: 3, FirstOffset: 5}}},
		{8, 1, ReadCommitted, 9, []store.AbortedTxn{{ProducerID: 3, FirstOffset: 5}}},
		{9, 1, ReadCommitted, 0, nil}, // nothing readable yet
		{9, 1, ReadUncommitted, 11, nil},
	} {
		rd, err := p.Read(x.off, x.maxBytes, x.iso, true)
		if err != nil {
			t.Fatal(err)
		}
		if rd.Range.Next != x.next || !slices.Equal(rd.Aborted, x.aborted) {
			t.Errorf("read %d, %d bytes, isolation %d: next %d, aborted %v, want %d, %v",
				x.off, x.maxBytes, x.iso, rd.Range.Next, rd.Aborted, x.next, x.aborted)
		}
		rd.Range.Release()
	}
}

// TestMore tells a reader at the end of a segment that the next one holds more, and one that a byte
// limit or the log's end stopped that waiting may help.
func TestMore(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{})
	r.append(p, records(1, 100))
	r.append(p, records(1, 100))
	if err := p.Log().Roll(); err != nil {
		t.Fatal(err)
	}
	r.append(p, records(1, 100))
	for _, x := range []struct {
		off      kafkaproto.Offset
		maxBytes int
		next     kafkaproto.Offset
		more     bool
	}{{0, 1 << 20, 2, true}, {1, 1, 2, true}, {0, 1, 1, false}, {2, 1 << 20, 3, false}} {
		rd, err := p.Read(x.off, x.maxBytes, ReadUncommitted, true)
		if err != nil || rd.Range.Next != x.next || rd.More != x.more {
			t.Errorf("read %d, %d bytes: next %d, more %v, %v", x.off, x.maxBytes, rd.Range.Next, rd.More, err)
		}
		rd.Range.Release()
	}
}

// TestRow46 moves the log start, durably, within [log start, high watermark].
func TestRow46(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{})
	r.append(p, records(5, 10))
	for _, x := range []struct{ to, want kafkaproto.Offset }{{2, 2}, {1, 2}, {-1, 5}} {
		if low, err := p.DeleteRecords(x.to); err != nil || low != x.want || p.LogStart() != x.want {
			t.Fatalf("delete to %d: %d, %v, log start %d", x.to, low, err, p.LogStart())
		}
	}
	for _, bad := range []kafkaproto.Offset{-2, 6} {
		if _, err := p.DeleteRecords(bad); kafkaproto.Code(err) != kerr.OffsetOutOfRange.Code {
			t.Fatalf("delete to %d: %v", bad, err)
		}
	}
	if _, err := p.Read(4, 100, ReadUncommitted, true); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("read below the log start: %v", err)
	}
}

// TestRow33And34 checks a client's epoch against the current one, and finds where an epoch ended.
func TestRow33And34(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{})
	cur := p.LeaderEpoch()
	r.append(p, records(2, 10))
	for _, x := range []struct {
		asked kafkaproto.LeaderEpoch
		want  *kerr.Error
	}{{-1, nil}, {cur, nil}, {cur - 1, kerr.FencedLeaderEpoch}, {cur + 1, kerr.UnknownLeaderEpoch}} {
		err := p.CheckEpoch(x.asked)
		if (err == nil) != (x.want == nil) || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("epoch %d of %d: %v", x.asked, cur, err)
		}
	}
	if e, end := p.EpochEnd(cur); e != cur || end != 2 {
		t.Errorf("end of the current epoch: %d %d", e, end)
	}
	if e, end := p.EpochEnd(cur + 1); e != -1 || end != -1 {
		t.Errorf("end of a later epoch: %d %d", e, end)
	}
}

// TestTogether runs producers, readers, watchers, a changing durability mode and a deletion at the
// same time: every wait is told once, acknowledged offsets are below the high watermark, and no
// reader sees one above it.
func TestTogether(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.partition(1, store.Config{Strict: true, SegmentBytes: 4000})
	var producers, readers sync.WaitGroup
	var told, owed atomic.Int64
	for range 4 {
		producers.Go(func() {
			for range 200 {
				res, err := p.Append(records(2, 20), AppendOptions{NowMs: testNow})
				if err != nil {
					if !errors.Is(err, kerr.UnknownTopicOrPartition) {
						t.Error(err)
					}
					return
				}
				owed.Add(1)
				p.WhenCommitted(res.End, func(err error) {
					told.Add(1)
					if err == nil && p.HighWatermark() < res.End {
						t.Errorf("acknowledged %d above the high watermark", res.End)
					}
				})
			}
		})
	}
	stop := make(chan struct{})
	for i := range 3 {
		readers.Go(func() { follow(t, p, Isolation(i%2), stop) })
	}
	readers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				p.SetConfig(store.Config{Strict: i%2 == 0, SegmentBytes: 4000})
			}
		}
	})
	producers.Wait()
	if err := p.Log().Flush(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		owed.Add(1)
		p.WhenCommitted(p.LogEnd()+1, func(err error) {
			told.Add(1)
			if !errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Errorf("a wait of a deleted partition was told %v", err)
			}
		})
	}
	if err := r.engine.Delete(p.ID()); err != nil {
		t.Fatal(err)
	}
	close(stop)
	readers.Wait()
	if told.Load() != owed.Load() {
		t.Fatalf("%d waits, %d told", owed.Load(), told.Load())
	}
}

// follow consumes the partition to its end, sleeping on a watcher.
func follow(t *testing.T, p *Partition, iso Isolation, stop chan struct{}) {
	wake := make(chan struct{}, 1)
	w := NewWatcher(func() {
		select {
		case wake <- struct{}{}:
		default: // one is enough
		}
	})
	p.Watch(w)
	defer p.Unwatch(w)
	for off := kafkaproto.Offset(0); ; {
		w.Arm()
		rd, err := p.Read(off, 500, iso, true)
		if err != nil {
			if !errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Error(err)
			}
			return
		}
		if rd.Range.Len > 0 {
			if rd.Range.First != off || rd.Range.Next > p.HighWatermark() {
				t.Errorf("read at %d gave [%d, %d)", off, rd.Range.First, rd.Range.Next)
			}
			off = rd.Range.Next
			rd.Range.Release()
			continue
		}
		select {
		case <-wake:
		case <-stop:
			return
		}
	}
}
