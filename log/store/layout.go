package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// The names of what stands in a data directory beside the partitions' directories.
const (
	lockFile     = "LOCK"
	formatFile   = "sluice.format"
	journalDir   = "journal"
	deleteSuffix = "-delete"
	maxNameBytes = 255
)

// FormatVersion is the version of the data directory that this release reads and writes; a later
// one is refused.
const FormatVersion = 1

// checkOneDir refuses Kafka's list of directories (ruling 1).
func checkOneDir(dir string) error {
	if dir == "" {
		return errors.New("no data directory is given")
	}
	if strings.Contains(dir, ",") {
		return errors.New("log.dirs holds a list; a broker keeps one data directory: " +
			"join the disks below the file system, or run a broker for each")
	}
	return nil
}

// partitionDir reads a directory's name as topic-partition. gone: the topic was deleted and the
// directory waits for removal.
func partitionDir(name string) (tp kafkaproto.TopicPartition, gone, ok bool) {
	if strings.HasSuffix(name, deleteSuffix) {
		dot := strings.LastIndexByte(name, '.')
		return tp, true, dot > 0 && len(name)-dot == 1+32+len(deleteSuffix)
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return tp, false, false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[dash+1:] {
		return tp, false, false
	}
	return kafkaproto.TopicPartition{Topic: name[:dash], Partition: int32(n)}, false, true
}

// deletedDir is the name a deleted log's directory gets: topic-partition.<32 hex>-delete, the topic
// cut where the name would become too long, as Kafka does.
func deletedDir(random io.Reader, dir string, tp kafkaproto.TopicPartition) (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", fmt.Errorf("draw directory name: %w", err)
	}
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, hex.EncodeToString(id[:]), deleteSuffix)
	topic := tp.Topic[:min(len(tp.Topic), maxNameBytes-len(tail))]
	return path.Join(dir, topic+tail), nil
}

// checkFormat reads the data directory's own version. It is written into an empty directory; one
// with partitions and without it is somebody else's (ruling 7).
func checkFormat(fsys vfs.FS, dir string, hasPartitions bool) error {
	b, err := vfs.ReadFile(fsys, path.Join(dir, formatFile), 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		if hasPartitions {
			return fmt.Errorf("%s holds partitions but no %s: if Kafka wrote it, "+
				"run `sluice log import` on a copy of it first", dir, formatFile)
		}
		return writeFormat(fsys, dir)
	}
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(b))
	v, err := strconv.Atoi(strings.TrimPrefix(text, "version: "))
	switch {
	case err != nil || v < 1:
		return fmt.Errorf("%s says %q, which is no format version", formatFile, text)
	case v > FormatVersion:
		return fmt.Errorf("%s was written by a newer release (format %d, this one knows %d): "+
			"run that release or a later one", dir, v, FormatVersion)
	}
	return nil
}

func writeFormat(fsys vfs.FS, dir string) error {
	return vfs.WriteFileAtomic(fsys, path.Join(dir, formatFile), fmt.Appendf(nil, "version: %d\n",
		FormatVersion))
}

// unsynced is a file system whose per-file syncs do nothing, for writes that one SyncFS, or
// nothing at all, makes durable afterwards.
type unsynced struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (u unsynced) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := u.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsynced) SyncDir(string) error { return nil }

func (unsyncedFile) Sync() error { return nil }

// syncFile makes the bytes of a closed file durable.
func syncFile(fsys vfs.FS, name string) error {
	f, err := vfs.Open(fsys, name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeIfThere removes a file that may be missing.
func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// inParallel calls fn for 0..n-1 on a few goroutines and waits for all of them; one after the other where a
// run must repeat itself.
func (s *Store) inParallel(n int, fn func(i int)) {
	workers := min(n, 4*runtime.GOMAXPROCS(0))
	if workers <= 1 || s.o.knobs.manual {
		for i := range n {
			fn(i)
		}
		return
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
