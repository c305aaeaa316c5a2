package segment

import (
	"errors"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
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

// Options are a segment's surroundings.
type Options struct {
	IndexInterval int        // index.interval.bytes; 0 means 4096
	IndexBytes    int        // segment.index.bytes; 0 means 10 MiB
	Files         *FileCache // handles of sealed segments; nil means one of its own
	Suffix        string     // behind every file name: "", Cleaned, Swap or Deleted
}

// FileCache bounds the open handles of sealed segments, over all segments that share it. A handle
// in use is never closed, so the bound is exceeded while more readers than that are active.
type FileCache struct{}

// NewFileCache makes a cache that keeps at most max handles open.
func NewFileCache(max int) *FileCache { panic("todo") }

// Open is the number of handles open now.
func (c *FileCache) Open() int { panic("todo") }

// Segment is one segment. One caller at a time may write (Append, Truncate, AppendAborted,
// FlushIndexes, Sync may run beside Append); any number may read beside the writer, without a lock.
type Segment struct{}

// Create makes an empty active segment. baseIndex is the raft index that its first batch will
// have; 0 means that raft indexes are not kept (compacted). The directory entry is not synced.
func Create(fs vfs.FS, dir string, base kafkaproto.Offset, baseIndex uint64, o Options) (*Segment, error) {
	panic("todo")
}

// Open opens a segment, sealed or active, without reading batches. When its indexes do not prove
// that they cover the file (unclean stop, damage, a directory of Kafka's), Ready is false and
// Recover must be called before anything else.
func Open(fs vfs.FS, dir string, base kafkaproto.Offset, o Options, sealed bool) (*Segment, error) {
	panic("todo")
}

// Ready reports whether the segment can be used as it is; else call Recover.
func (s *Segment) Ready() bool { panic("todo") }

// Recovery says how to recover a segment.
type Recovery struct {
	// From is the position, on a batch boundary, from which whole batches are read, their CRC is
	// verified and Check is called. Below it only headers are walked: those bytes are known to be
	// synced (ruling 4), and are verified before their first read is served (ruling 9).
	From int64
	// BaseIndex is the raft index of the first batch; 0: what .raftindex says, or unknown.
	BaseIndex uint64
	// Index gives the raft index of each batch that is walked, in order, so that side entries are
	// counted. nil: one after the other.
	Index func(h batch.Header) uint64
	// Check is called for each whole batch from From on; an error ends the valid prefix before
	// that batch. b is valid during the call.
	Check func(b batch.Batch, pos int64) error
	// Rebuild ignores the indexes on disk.
	Rebuild bool
}

// Recovered says what was found.
type Recovered struct {
	// End is where the valid prefix ends; the segment's Size is End afterwards.
	End int64
	// FileSize is the size of the file. When it is larger than End, call Truncate(End), after
	// saving what is cut, before the next Append; or leave it and take the partition offline.
	FileSize int64
	// Cause is why the bytes at End are not a good batch; nil when End is FileSize.
	Cause error
	// Walked is the number of bytes that the indexes had not covered.
	Walked int64
}

// Recover makes the segment ready. A bad batch below r.From is returned as a corruption error, and
// one from there on in Recovered. The indexes of a sealed segment are written anew.
func (s *Segment) Recover(r Recovery) (Recovered, error) { panic("todo") }

// RebuildIndexes makes all indexes anew from the headers of the batches, and writes those of a
// sealed segment. index is as in Recovery.
func (s *Segment) RebuildIndexes(index func(h batch.Header) uint64) error { panic("todo") }

// Append writes b, one or several whole batches, at the end; index is the raft index of the first
// of them and the others follow it without gaps. After an error nothing has changed (ruling 6):
// what was written is cut off again. ErrFull: roll and append to the next segment. An error that
// vfs.IsNoSpace knows may pass; after any other the segment is broken.
func (s *Segment) Append(b []byte, index uint64) error { panic("todo") }

// Fits reports whether a batch of n bytes that ends with offset last can be appended.
func (s *Segment) Fits(last kafkaproto.Offset, n int) bool { panic("todo") }

// IndexFull reports whether an index has reached segment.index.bytes: roll.
func (s *Segment) IndexFull() bool { panic("todo") }

// BaseOffset is the number in the segment's name.
func (s *Segment) BaseOffset() kafkaproto.Offset { panic("todo") }

// BaseIndex is the raft index of the first batch; 0 when unknown.
func (s *Segment) BaseIndex() uint64 { panic("todo") }

// NextOffset is the offset behind the last batch; the base offset when there is none.
func (s *Segment) NextOffset() kafkaproto.Offset { panic("todo") }

// LastIndex is the raft index of the last batch; 0 when there is none or it is unknown.
func (s *Segment) LastIndex() uint64 { panic("todo") }

// Size is the number of bytes of whole batches.
func (s *Segment) Size() int64 { panic("todo") }

// IndexSize is the number of bytes of the indexes, on disk or to be.
func (s *Segment) IndexSize() int64 { panic("todo") }

// LargestTimestamp is the largest timestamp (milliseconds) and the last offset of the first batch
// that has it; -1 and the base offset when there is none.
func (s *Segment) LargestTimestamp() (int64, kafkaproto.Offset) { panic("todo") }

// FirstTimestamp is the largest timestamp of the first batch, by which segment.ms counts; false
// when there is none.
func (s *Segment) FirstTimestamp() (int64, bool) { panic("todo") }

// Sealed reports whether Seal has succeeded.
func (s *Segment) Sealed() bool { panic("todo") }

// Path is the .log file's name now.
func (s *Segment) Path() string { panic("todo") }

// Range is whole batches of one segment. Release must be called exactly once.
type Range struct {
	File vfs.File
	Pos  int64
	Len  int
	// First is the base offset of the first batch; Next the offset behind the last.
	First, Next kafkaproto.Offset
}

// Release lets the segment and its file handle go.
func (r *Range) Release() { panic("todo") }

// Lookup is the position of the first batch that ends at or behind off. ErrNotFound when off is
// at or behind NextOffset.
func (s *Segment) Lookup(off kafkaproto.Offset) (int64, error) { panic("todo") }

// RaftPosition is where a raft index is, or the closest one before it that the index knows.
type RaftPosition struct {
	Index  uint64
	Offset kafkaproto.Offset // base offset of the batch with that index
	Pos    int64
}

// LookupIndex finds the last entry of .raftindex at or before index; false when raft indexes are
// not kept or index is before the first.
func (s *Segment) LookupIndex(index uint64) (RaftPosition, bool, error) { panic("todo") }

// ReadRange finds the bytes of whole batches from the one that holds off on: at most max bytes,
// all below limit (exclusive). With minOne the first batch is given whole even when it is larger
// than max, if it is below limit. Len 0: there is nothing to give. The blocks it covers have been
// verified once since Open (ruling 9); damage is a corruption error.
func (s *Segment) ReadRange(off kafkaproto.Offset, max int, limit kafkaproto.Offset, minOne bool) (Range, error) {
	panic("todo")
}

// ReadBatch reads the batch at pos into buf, which grows when needed, and verifies it.
func (s *Segment) ReadBatch(pos int64, buf []byte) (batch.Batch, error) { panic("todo") }

// ReadAt reads raw bytes, also behind Size: for saving a tail that is to be cut.
func (s *Segment) ReadAt(p []byte, pos int64) (int, error) { panic("todo") }

// ScanFrom reads whole batches from pos to Size, in large sequential reads, without verifying
// their CRC, until fn returns an error. It gives the position behind the last batch that fn took.
// b is valid during the call.
func (s *Segment) ScanFrom(pos int64, fn func(b batch.Batch, pos int64) error) (int64, error) {
	panic("todo")
}

// ScanHeaders is ScanFrom for headers only; it skips over large payloads.
func (s *Segment) ScanHeaders(pos int64, fn func(h batch.Header, pos int64) error) (int64, error) {
	panic("todo")
}

// FindTime finds the first batch that ends at or behind from and has a record with a timestamp of
// at least ts by its header. When no record inside qualifies, go on with from = h.NextOffset().
func (s *Segment) FindTime(ts int64, from kafkaproto.Offset) (h batch.Header, pos int64, found bool, err error) {
	panic("todo")
}

// Truncate cuts the segment to pos bytes, a batch boundary, and cuts its indexes. Not synced.
func (s *Segment) Truncate(pos int64) error { panic("todo") }

// TruncateTo cuts the batch that holds off and all behind it. Not synced.
func (s *Segment) TruncateTo(off kafkaproto.Offset) error { panic("todo") }

// AbortedTxn is one entry of .txnindex.
type AbortedTxn struct {
	ProducerID  kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
	LastOffset  kafkaproto.Offset // of the marker
	LastStable  kafkaproto.Offset // the last stable offset when the marker was written
}

// AppendAborted adds an aborted transaction whose marker is in this segment. One that is there
// already (a marker not behind the last one's) is ignored, so replay may repeat them.
func (s *Segment) AppendAborted(a AbortedTxn) error { panic("todo") }

// Aborted lists the aborted transactions whose markers are in this segment, in marker order. A
// corruption error means that the file must be made again from the batches: SetAborted.
func (s *Segment) Aborted() ([]AbortedTxn, error) { panic("todo") }

// SetAborted replaces the list.
func (s *Segment) SetAborted(a []AbortedTxn) error { panic("todo") }

// FlushIndexes writes the active segment's indexes as far as they go, so that a recovery walks
// only what comes after. Not synced, and need not be: what does not prove itself is rebuilt.
func (s *Segment) FlushIndexes() error { panic("todo") }

// Seal writes the indexes and makes the segment immutable. It may run beside readers and on
// another goroutine than the appends did, when those have ended. After an error it may be called
// again; until it succeeds reads go on from memory.
func (s *Segment) Seal() error { panic("todo") }

// Sync makes the .log file's bytes durable.
func (s *Segment) Sync() error { panic("todo") }

// SyncAll makes all files of the segment durable, without their directory entries.
func (s *Segment) SyncAll() error { panic("todo") }

// Verify reads the whole segment from disk and checks every byte against batch CRCs and block
// sums; pace is called before each read with its size and may wait, or end it by an error.
func (s *Segment) Verify(pace func(bytes int) error) error { panic("todo") }

// Acquire keeps the files until Release; false when the segment is gone already.
func (s *Segment) Acquire() bool { panic("todo") }

// Release undoes one Acquire.
func (s *Segment) Release() { panic("todo") }

// Close flushes the indexes of an active segment and lets the files go with the last reader.
func (s *Segment) Close() error { panic("todo") }

// Rename gives all files of the segment another suffix. Not synced.
func (s *Segment) Rename(suffix string) error { panic("todo") }

// Delete renames the files to .deleted and closes the segment; readers that hold it go on. Remove
// takes the files away.
func (s *Segment) Delete() error { panic("todo") }

// Remove takes away the files of a segment after Delete. Readers keep the handles they have.
func (s *Segment) Remove() error { panic("todo") }

// Files is what a partition directory holds.
type Files struct {
	Segments []kafkaproto.Offset            // base offsets of .log files without suffix, ascending
	Suffixed map[string][]kafkaproto.Offset // by suffix: .deleted, .cleaned, .swap; .log files only
	Orphans  []string                       // segment files without a .log beside them
	Other    []string                       // everything else: checkpoints, snapshots, strangers
}

// List reads a partition directory.
func List(fs vfs.FS, dir string) (Files, error) { panic("todo") }

// RemoveFiles takes away all files of the segment with this base and suffix.
func RemoveFiles(fs vfs.FS, dir string, base kafkaproto.Offset, suffix string) error { panic("todo") }

// RenameFiles gives all files of a segment that is not open another suffix.
func RenameFiles(fs vfs.FS, dir string, base kafkaproto.Offset, from, to string) error { panic("todo") }
