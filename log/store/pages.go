package store

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

const (
	// pageChunk is the unit, in bytes, in which written ranges are followed.
	pageChunk = 1 << 20
	// pageOverlap is how far in front of a chunk its pages are dropped once more: the kernel keeps a
	// large page that only lies partly in a range.
	pageOverlap = 4 << 20
	// readerFresh is for how long, in milliseconds, a read counts as one that goes on.
	readerFresh = 10_000
	// neverRead is a time before every clock's.
	neverRead = -1 << 40
	// pageSlack is by how much the budget is passed before pages are given back, in one go.
	pageSlack = 16 << 20
)

// pages bounds how much of what is appended stays in the memory of the operating system. Left to
// itself, the cache takes all memory that is free, and a page that the machine has not used before
// costs more time than the copy into it. Here the newest bytes stay, up to a budget over all logs;
// behind that pages are given back once they are on disk, and used again for the next appends.
// Nothing but speed depends on it.
//
// A chunk that a reader is on its way to is left to the kernel.
type pages struct {
	s      *Store
	budget int64 // bytes; 0: the kernel decides
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}

	mu struct {
		sync.Mutex
		chunks []pageRange // in the order of writing
		flush  []pageRange // of relaxed logs: no sync will write them soon
		held   int64       // bytes of chunks
	}
}

// pageRange is a written range of a segment, and the offset behind it.
type pageRange struct {
	log    *Log
	seg    *segment.Segment
	pos, n int64
	end    kafkaproto.Offset
}

func newPages(s *Store) *pages {
	return &pages{s: s, budget: s.o.PageCache, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
}

func (p *pages) start() {
	if p.budget <= 0 {
		close(p.done)
		return
	}
	go p.run()
}

func (p *pages) close() {
	close(p.stop)
	<-p.done
}

func (p *pages) run() {
	defer close(p.done)
	for {
		select {
		case <-p.wake:
			p.work()
		case <-p.stop:
			return
		}
	}
}

// appended notes that the active segment has grown. The caller holds the log's mu.
func (p *pages) appended(l *Log) {
	if p.budget <= 0 {
		return
	}
	m := &l.mu.noted
	if active := l.mu.active; m.seg != active {
		m.seg, m.pos, m.n = active, 0, 0
	}
	if m.n = m.seg.Size() - m.pos; m.n < pageChunk {
		return
	}
	r := *m
	r.log, r.end = l, l.EndOffset()
	m.pos += m.n
	strict := l.config.Load().Strict
	p.mu.Lock()
	p.mu.chunks = append(p.mu.chunks, r)
	p.mu.held += r.n
	if !strict {
		p.mu.flush = append(p.mu.flush, r)
	}
	busy := !strict || p.mu.held > p.budget+pageSlack
	p.mu.Unlock()
	if busy {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// work starts the writing of what is new and gives back what is beyond the budget.
func (p *pages) work() {
	p.mu.Lock()
	flush := p.mu.flush
	p.mu.flush = nil
	var old []pageRange
	n := 0
	for p.mu.held > p.budget && n < len(p.mu.chunks) {
		p.mu.held -= p.mu.chunks[n].n
		n++
	}
	old = append(old, p.mu.chunks[:n]...)
	p.mu.chunks = append(p.mu.chunks[:0], p.mu.chunks[n:]...)
	p.mu.Unlock()
	for _, r := range flush {
		p.told("start writing back", r, r.seg.StartWriteback(r.pos, r.n))
	}
	for _, r := range old {
		if r.log.awaited(r) {
			continue
		}
		from := max(0, r.pos-pageOverlap)
		p.told("give pages back", r, r.seg.DropRange(from, r.pos+r.n-from))
	}
}

// told logs a failure, but for those of segments that are gone.
func (p *pages) told(what string, r pageRange, err error) {
	if err == nil || errors.Is(err, segment.ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrUnsupported) {
		return
	}
	p.s.log.Debug(what, "partition", r.log.tp, "error", err)
}

// noteRead remembers the farthest reader behind the end of the last seconds.
func (l *Log) noteRead(off kafkaproto.Offset) {
	if l.store.o.PageCache <= 0 {
		return
	}
	now := l.store.nowMs()
	if int64(off) <= l.readAt.Load() || now-l.readMs.Load() > readerFresh {
		l.readAt.Store(int64(off))
		l.readMs.Store(now)
	}
}

// awaited says whether a reader was seen lately in front of r, in the same segment.
func (l *Log) awaited(r pageRange) bool {
	at := kafkaproto.Offset(l.readAt.Load())
	return l.store.nowMs()-l.readMs.Load() <= readerFresh &&
		at >= r.seg.BaseOffset() && at < r.end
}
