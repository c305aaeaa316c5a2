package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicelog/sluice/compat/cluster"
)

// smallDisk mounts a file system of its own, of size MiB: ext4 in a file, or tmpfs where the machine
// has no loop devices. The test is skipped where nothing may be mounted.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	run := func(name string, args ...string) error {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
		}
		return nil
	}
	err := os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, int64(size)<<20)
	}
	if err == nil {
		err = run("mkfs.ext4", "-q", "-m", "0", "-F", image)
	}
	if err == nil {
		err = run("mount", "-o", "loop", image, dir)
	}
	if err != nil {
		t.Logf("no ext4: %v", err)
		err = run("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", size), "sluice-test", dir)
	}
	if err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := run("umount", dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fullDisk is a broker on a small disk.
type fullDisk struct {
	t     *testing.T
	b     *cluster.Broker
	cl    *kgo.Client
	admin *kadm.Client
	acked int // records of topic "filling", by the values "0", "1", ... in order
}

// TestDiskFull is ruling 6 on a real file system: with the disk full a produce is refused with
// KAFKA_STORAGE_ERROR, reads and the broker's own records go on, and writes resume without a restart
// when there is space again. A kill while the disk is full loses nothing. With a small reserve a write
// finds the disk full before the broker has looked.
func TestDiskFull(t *testing.T) {
	for _, reserve := range []int{16 << 20, 1 << 20} {
		t.Run(fmt.Sprintf("reserve of %d MiB", reserve>>20), func(t *testing.T) { diskFull(t, reserve) })
	}
}

func diskFull(t *testing.T, reserve int) {
	d := &fullDisk{t: t}
	d.b = cluster.Start(t, cluster.Options{Dir: smallDisk(t, 96), Overrides: []string{
		"sluice.durability=strict", "log.segment.bytes=4194304", fmt.Sprintf("sluice.disk.reserve.bytes=%d", reserve),
		"log.segment.delete.delay.ms=100", "offsets.topic.num.partitions=4",
	}})
	var err error
	d.cl, err = kgo.NewClient(kgo.SeedBrokers(d.b.Address()), kgo.RecordRetries(0), kgo.ProducerLinger(0),
		kgo.RetryTimeout(5*time.Second), kgo.RecordDeliveryTimeout(5*time.Second), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer d.cl.Close()
	d.admin = kadm.NewClient(d.cl)
	for _, topic := range []string{"ballast", "filling"} {
		if _, err := d.admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		if err := d.produce("ballast", nil); err != nil {
			t.Fatalf("ballast: %v", err)
		}
	}
	d.fill()
	d.verify("the full disk")
	d.commit("on the full disk")
	d.b.Kill()
	d.b.Restart()
	d.verify("a kill and a restart on the full disk")
	if err := d.produce("filling", d.value()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("produce after a restart on the full disk: %v", err)
	}
	if _, err := d.admin.DeleteTopics(t.Context(), "ballast"); err != nil {
		t.Fatalf("delete a topic on the full disk: %v", err)
	}
	d.resume()
	d.verify("space came back")
	if err := d.b.Stop(); err != nil {
		t.Fatal(err)
	}
	d.b.Restart()
	d.verify("a restart")
}

// value is the next record of "filling", of about 700 KiB.
func (d *fullDisk) value() []byte {
	return append(fmt.Appendf(nil, "%d ", d.acked), bytes.Repeat([]byte("f"), 700<<10)...)
}

func (d *fullDisk) produce(topic string, value []byte) error {
	if value == nil {
		value = bytes.Repeat([]byte("b"), 700<<10)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := d.cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr()
		if !errors.Is(err, kgo.ErrRecordRetries) { // the connection of before a restart
			return err
		}
	}
}

// fill produces until it is refused.
func (d *fullDisk) fill() {
	d.t.Helper()
	for range 200 {
		err := d.produce("filling", d.value())
		if err == nil {
			d.acked++
			continue
		}
		if !errors.Is(err, kerr.KafkaStorageError) {
			d.t.Fatalf("after %d records: %v, want %v", d.acked, err, kerr.KafkaStorageError)
		}
		return
	}
	d.t.Fatalf("%d records of 700 KiB fit", d.acked)
}

// commit puts offsets into the reserve.
func (d *fullDisk) commit(when string) {
	d.t.Helper()
	for i := range int64(50) {
		var offsets kadm.Offsets
		offsets.AddOffset("filling", 0, i, -1)
		if err := d.admin.CommitAllOffsets(d.t.Context(), "readers", offsets); err != nil {
			d.t.Fatalf("commit %d %s: %v", i, when, err)
		}
	}
}

// resume waits until a record is taken again.
func (d *fullDisk) resume() {
	d.t.Helper()
	var err error
	for range 60 {
		if err = d.produce("filling", d.value()); err == nil {
			d.acked++
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	d.t.Fatalf("no record is taken although there is space: %v\n%s", err, d.b.Output())
}

// verify reads "filling" from its start: each acknowledged record once and in order. A refused one may
// not be there either, since the broker said that it was not written.
func (d *fullDisk) verify(after string) {
	d.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.b.Address()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"filling": {0: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		d.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	ends, err := d.admin.ListEndOffsets(ctx, "filling")
	if err != nil {
		d.t.Fatalf("after %s: %v", after, err)
	}
	if end, _ := ends.Lookup("filling", 0); end.Offset != int64(d.acked) {
		d.t.Fatalf("after %s: log end %d with %d records acknowledged", after, end.Offset, d.acked)
	}
	for next := 0; next < d.acked; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			d.t.Fatalf("after %s, at record %d: %v", after, next, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprintf("%d ", next); !bytes.HasPrefix(r.Value, []byte(want)) || len(r.Value) != len(want)+700<<10 {
				d.t.Fatalf("after %s: record %d begins with %q and has %d bytes", after, next, r.Value[:8], len(r.Value))
			}
			next++
		})
	}
}
