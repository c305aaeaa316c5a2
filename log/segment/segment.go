package segment

import (
	"errors"
	"fmt"
	"math"
	"path"
	"sync"
	"sync/atomic"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// Errors that callers tell apart.
var (
	// ErrBroken: a failed write could not be cut back, or the disk refused a write for another
	// reason than space. The segment takes no more; reads go on.
	ErrBroken = errors.New("segment is broken by a failed write")
	// ErrFull: the batch does not fit; roll. Offsets are counted from the base in 31 bits.
	ErrFull = errors.New("segment is full")
	// ErrStale: Open did not find indexes that cover the file; call Recover.
	ErrStale = errors.New("segment must be recovered first")
	// ErrSealed: the segment takes no more batches.
	ErrSealed = errors.New("segment is sealed")
	// ErrGone: the segment was closed or deleted and its last reader has left.
	ErrGone = errors.New("segment is gone")
	// ErrNotFound: the segment holds no such offset.
	ErrNotFound = errors.New("offset not in segment")
)

// The suffixes Kafka puts behind a segment's file names.
const (
	Deleted = ".deleted" // waits for file.delete.delay.ms
	Cleaned = ".cleaned" // being written by the cleaner
	Swap    = ".swap"    // complete, about to take the place of others
)

// The kinds of files of a segment.
const (
	extLog    = ".log"
	extOffset = ".index"
	extTime   = ".timeindex"
	extRaft   = ".raftindex"
	extTxn    = ".txnindex"
	extSum    = ".sum"
)

// Defaults of Options.
const (
	defaultInterval   = 4096
	defaultIndexBytes = 10 << 20
	defaultFiles      = 64
)

// MaxSize is the most bytes a segment can hold: Kafka's positions have 31 bits.
const MaxSize = math.MaxInt32

// Options are a segment's surroundings.
type Options struct {
	IndexInterval int        // index.interval.bytes; 0 means 4096
	IndexBytes    int        // segment.index.bytes; 0 means 10 MiB
	Files         *FileCache // handles of sealed segments; nil means one of its own
	Suffix        string     // behind every file name: "", Cleaned, Swap or Deleted

	block int64 // for tests: blockSize
}

// Segment is one segment. Appends, truncations and flushes take turns by themselves; any number of
// readers may run beside them, without a lock.
type Segment struct {
	fs       vfs.FS
	dir      string
	base     kafkaproto.Offset
	files    *FileCache
	interval int64
	block    int64
	maxIndex int

	// What readers see. end holds the next offset relative to the base and the size, published in
	// one word after the bytes are written, so that a reader never sees one without the other.
	end                         atomic.Uint64
	largest, largestOff, first  atomic.Int64
	baseIndex, lastIndex        atomic.Uint64
	ready, sealed, broken, gaps atomic.Bool
	mem                         atomic.Pointer[memory]        // nil: indexes are read from disk
	summary                     atomic.Pointer[index.Summary] // of a sealed segment
	unverified                  atomic.Pointer[unverified]    // nil when every block was verified
	hints                       atomic.Pointer[hints]
	cuts                        atomic.Int64 // truncations so far, begun and ended
	rebuilds                    atomic.Int64 // of a sealed segment's indexes
	proved                      atomic.Uint32

	refs                atomic.Int64 // the owner and Acquire
	closed              atomic.Bool
	suffix              atomic.Pointer[string]
	log, offsets, times handle

	// Lock order: repair, flush, mu, names.
	repair sync.Mutex   // one rebuild of a sealed segment's index at a time
	flush  sync.Mutex   // guards the writing of index files, and flushed
	mu     sync.Mutex   // guards w and txns
	names  sync.RWMutex // held while files are renamed, shared while one is opened

	flushed  flushed
	txns     []index.Txn
	txnsLost bool // .txnindex was damaged and SetAborted was not called yet
	sealing  bool // Seal was called: no more appends
	w        builder
	// fileSize is above w.size while a tail that Recover refused waits for Truncate.
	fileSize int64
}

// memory is the indexes of an active segment.
type memory struct {
	offsets index.List[index.Offset]
	times   index.List[index.Time]
	rafts   index.List[index.Raft]
	sums    index.List[index.Sum]
}

// builder is one for an empty segment.
func (s *Segment) builder(baseIndex uint64) builder {
	b := newBuilder(s.base, baseIndex, s.interval)
	b.block = s.block
	return b
}

// newSegment makes a segment without files.
func newSegment(fs vfs.FS, dir string, base kafkaproto.Offset, o Options) *Segment {
	s := &Segment{
		fs: fs, dir: dir, base: base, files: o.Files,
		interval: int64(o.IndexInterval), maxIndex: o.IndexBytes, block: o.block,
	}
	if s.block == 0 {
		s.block = blockSize
	}
	if s.files == nil {
		s.files = NewFileCache(defaultFiles)
	}
	if s.interval == 0 {
		s.interval = defaultInterval
	}
	if s.maxIndex == 0 {
		s.maxIndex = defaultIndexBytes
	}
	s.suffix.Store(&o.Suffix)
	s.hints.Store(&hints{})
	s.refs.Store(1)
	for ext, h := range s.handles() {
		h.open = func() (vfs.File, error) { return s.openFile(ext) }
	}
	return s
}

func (s *Segment) handles() map[string]*handle {
	return map[string]*handle{extLog: &s.log, extOffset: &s.offsets, extTime: &s.times}
}

// fileName is the name of a segment's file: 20 digits, kind, suffix.
func fileName(base kafkaproto.Offset, ext, suffix string) string {
	return fmt.Sprintf("%020d%s%s", base, ext, suffix)
}

func (s *Segment) path(ext string) string {
	return path.Join(s.dir, fileName(s.base, ext, *s.suffix.Load()))
}

// openFile opens one of the files for reading, under the name it has now.
func (s *Segment) openFile(ext string) (vfs.File, error) {
	s.names.RLock()
	defer s.names.RUnlock()
	return vfs.Open(s.fs, s.path(ext))
}

// published is the end that readers may look at.
func (s *Segment) published() (next kafkaproto.Offset, size int64) {
	end := s.end.Load()
	return s.base + kafkaproto.Offset(end>>32), int64(uint32(end))
}

// publish shows the builder's state to readers; the end goes last.
func (s *Segment) publish() {
	s.largest.Store(s.w.largest)
	s.largestOff.Store(int64(s.w.largestOff))
	s.first.Store(s.w.first)
	s.baseIndex.Store(s.w.baseIndex)
	s.lastIndex.Store(s.w.lastIndex)
	s.gaps.Store(s.w.gaps)
	s.end.Store(uint64(s.w.next-s.base)<<32 | uint64(s.w.size))
}

// usable says why the segment cannot be used, and else keeps it until Release.
func (s *Segment) usable() error {
	if !s.Acquire() {
		return s.errorf("%w", ErrGone)
	}
	if !s.ready.Load() {
		s.Release()
		return s.errorf("%w", ErrStale)
	}
	return nil
}

func (s *Segment) errorf(format string, args ...any) error {
	return fmt.Errorf("segment "+s.path(extLog)+": "+format, args...)
}

func (s *Segment) corruptf(format string, args ...any) error {
	return kafkaproto.Corruptf("segment "+s.path(extLog)+": "+format, args...)
}

// Ready reports whether the segment can be used as it is; else call Recover.
func (s *Segment) Ready() bool { return s.ready.Load() }

// BaseOffset is the number in the segment's name.
func (s *Segment) BaseOffset() kafkaproto.Offset { return s.base }

// BaseIndex is the raft index of the first batch; of an empty segment the one that Create was told.
// 0: not kept, or unknown.
func (s *Segment) BaseIndex() uint64 { return s.baseIndex.Load() }

// LastIndex is the raft index of the last batch. 0: there is none, or it is unknown: not kept, or
// the segment was truncated and nothing was appended since.
func (s *Segment) LastIndex() uint64 { return s.lastIndex.Load() }

// NextOffset is the offset behind the last batch; the base offset when there is none.
func (s *Segment) NextOffset() kafkaproto.Offset {
	next, _ := s.published()
	return next
}

// Size is the number of bytes of whole batches.
func (s *Segment) Size() int64 {
	_, size := s.published()
	return size
}

// IndexSize is the number of bytes of the indexes, on disk or to be.
func (s *Segment) IndexSize() int64 {
	if m := s.mem.Load(); m != nil {
		return int64(m.offsets.Len())*index.OffsetSize + int64(m.times.Len())*index.TimeSize +
			index.SummarySize + int64(m.rafts.Len())*index.RaftSize +
			index.SumHeaderSize + int64(m.sums.Len())*index.SumSize
	}
	if sum := s.summary.Load(); sum != nil {
		return int64(sum.Offsets.N)*index.OffsetSize + int64(sum.Times.N)*index.TimeSize +
			index.SummarySize + int64(sum.Rafts.N)*index.RaftSize + int64(sum.Txns.N)*index.TxnSize +
			index.SumHeaderSize + int64(sum.Sums.N)*index.SumSize
	}
	return 0
}

// LargestTimestamp is the largest timestamp (milliseconds) and the last offset of the first batch
// that has it; -1 and the base offset when there is none.
func (s *Segment) LargestTimestamp() (int64, kafkaproto.Offset) {
	return s.largest.Load(), kafkaproto.Offset(s.largestOff.Load())
}

// FirstTimestamp is the largest timestamp of the first batch, by which segment.ms counts; false
// when there is none.
func (s *Segment) FirstTimestamp() (int64, bool) { return s.first.Load(), s.Size() > 0 }

// Sealed reports whether Seal has succeeded.
func (s *Segment) Sealed() bool { return s.sealed.Load() }

// Path is the .log file's name now.
func (s *Segment) Path() string { return s.path(extLog) }

// IndexFull reports whether an index has reached segment.index.bytes: roll.
func (s *Segment) IndexFull() bool {
	m := s.mem.Load()
	if m == nil {
		return true
	}
	// One place is kept for the entry that Seal adds, as Kafka does.
	return (m.offsets.Len()+1)*index.OffsetSize > s.maxIndex || (m.times.Len()+2)*index.TimeSize > s.maxIndex
}

// Fits reports whether a batch of n bytes that ends with offset last can be appended.
func (s *Segment) Fits(last kafkaproto.Offset, n int) bool {
	return last-s.base <= math.MaxInt32 && s.Size()+int64(n) <= MaxSize
}

// Acquire keeps the files until Release; false when the segment is gone already.
func (s *Segment) Acquire() bool {
	for n := s.refs.Load(); n > 0; n = s.refs.Load() {
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Release undoes one Acquire.
func (s *Segment) Release() {
	switch n := s.refs.Add(-1); {
	case n == 0:
		s.files.unpin(&s.log)
		for _, h := range s.handles() {
			s.files.drop(h)
		}
	case n < 0:
		panic(fmt.Sprintf("segment %s: released %d times too often", s.path(extLog), -n))
	}
}

// Close flushes the indexes of an active segment and lets the files go with the last reader.
func (s *Segment) Close() error {
	if s.closed.Swap(true) {
		return s.errorf("%w", ErrGone)
	}
	var err error
	if s.ready.Load() && !s.sealed.Load() && !s.broken.Load() {
		err = s.flushIndexes()
	}
	s.Release()
	return err
}
