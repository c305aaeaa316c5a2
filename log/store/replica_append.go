package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
)

// AppendEntries writes entries of raft. They follow each other; those that the log has are passed
// over, and when one has another term than the log's entry at its index, that one and all behind it
// are cut off first (R3), which waits for the disk. Batches behind a side entry wait until that is
// durable (R1); the committer has seen to it, unless they come at once.
//
// When it returns the entries are written; they are durable when the ticket is. After an error those
// in front of the one that failed are written, and the call can be made again.
func (l *Log) AppendEntries(ents []Entry) (Ticket, error) {
	if err := l.Offline(); err != nil {
		return 0, err
	}
	fresh, conflict, err := l.fresh(ents)
	if err == nil && conflict > 0 {
		if err = l.truncateFrom(conflict); err == nil {
			l.tell(Event{Kind: Truncated, Offset: l.EndOffset()})
		}
	}
	if err != nil {
		return 0, l.writeFailed(err)
	}
	t, rolled, err := l.appendFresh(fresh)
	for _, base := range rolled {
		l.tell(Event{Kind: Rolled, Offset: base})
	}
	l.store.committer.enqueue(l)
	if err != nil {
		return 0, l.writeFailed(err)
	}
	return t, nil
}

// fresh gives the entries that the log does not have. conflict is the index from which on the log
// has others; 0: none.
func (l *Log) fresh(ents []Entry) (fresh []Entry, conflict uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.shut != nil:
		return nil, 0, l.mu.shut
	case l.store.Err() != nil:
		return nil, 0, l.store.Err()
	case !l.raft.on.Load():
		return nil, 0, errors.New("it is in its solo form")
	case len(ents) == 0:
		return nil, 0, nil
	}
	g, last := l.raft.view.Load(), l.mu.lastIndex
	if ents[0].Index > last+1 {
		return nil, 0, fmt.Errorf("entry %d follows the last one, %d", ents[0].Index, last)
	}
	for i := range ents {
		index := ents[i].Index
		if index != ents[0].Index+uint64(i) {
			return nil, 0, fmt.Errorf("entry %d stands where %d is expected", index,
				ents[0].Index+uint64(i))
		}
		if index > last {
			return ents[i:], 0, nil
		}
		if term, ok := g.TermAt(index); ok && term != ents[i].Term {
			if index <= l.raft.commit.Load() {
				panic(fmt.Sprintf("store: entry %d of %s is committed with term %d, and comes with term %d",
					index, l.tp, term, ents[i].Term))
			}
			return ents[i:], index, nil
		}
	}
	return nil, 0, nil
}

func (l *Log) appendFresh(ents []Entry) (t Ticket, rolled []kafkaproto.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rolled, err = l.appendEntriesLocked(ents)
	return l.ticketLocked(), rolled, err
}

// appendEntriesLocked writes entries that follow the log's last one, and gives the base offsets of
// new segments. The caller holds mu.
func (l *Log) appendEntriesLocked(ents []Entry) (rolled []kafkaproto.Offset, err error) {
	if l.mu.shut != nil {
		return nil, l.mu.shut
	}
	sides, err := l.checkEntries(ents)
	if err != nil || len(ents) == 0 {
		return nil, err
	}
	pos := l.raft.pos
	if len(sides) > 0 {
		if pos, err = l.store.journal.Append(sides...); err != nil {
			return nil, err
		}
		l.raft.pos = pos
		l.refreshView()
	}
	nowMs := l.store.nowMs()
	for i := range ents {
		e := &ents[i]
		if l.raft.reservedTerm != e.Term {
			l.unreserveLocked(l.EndOffset()) // they were never handed out, and never will be
		}
		if e.Kind != EntryData {
			l.passSideLocked(e)
			l.raft.sidePos = pos
			continue
		}
		did, err := l.appendDataLocked(e, nowMs)
		if did {
			rolled = append(rolled, e.Batch.BaseOffset())
		}
		if err != nil {
			return rolled, errors.Join(err, l.voidSidesLocked())
		}
	}
	return rolled, nil
}

// checkEntries checks what a peer may have got wrong, before anything is written, and gives the
// journal's records of the side entries.
func (l *Log) checkEntries(ents []Entry) ([]journal.Record, error) {
	var sides []journal.Record
	index, end, term := l.mu.lastIndex, l.EndOffset(), l.raft.view.Load().LastTerm()
	for i := range ents {
		e := &ents[i]
		index++
		if e.Kind == EntryNoop && e.Term == term && term > 0 {
			// raft puts an empty entry in the place of a configuration change that it refuses. It begins no
			// term: it stands in the journal as a log start that moves nothing.
			e.Kind, e.Data = EntryLogStart, journal.LogStartData(0)
		}
		switch {
		case e.Index != index:
			return nil, fmt.Errorf("entry %d stands where %d is expected", e.Index, index)
		case e.Term > math.MaxInt32:
			return nil, fmt.Errorf("entry %d: term %d does not fit a leader epoch", index, e.Term)
		case e.Kind == EntryNoop && e.Term <= term, e.Kind != EntryNoop && e.Term != term:
			return nil, fmt.Errorf("entry %d of kind %d has term %d, %d is in force", index, e.Kind,
				e.Term, term)
		case e.Kind == EntryData:
			b := e.Batch
			if whole, err := batch.First(b); err != nil || len(whole) != len(b) {
				return nil, fmt.Errorf("entry %d is not one whole batch: %w", index, err)
			}
			if b.BaseOffset() != end || uint64(b.LeaderEpoch()) != e.Term {
				return nil, fmt.Errorf("entry %d of term %d has a batch at offset %d, %d is next, "+
					"with leader epoch %d", index, e.Term, b.BaseOffset(), end, b.LeaderEpoch())
			}
			end = b.NextOffset()
			continue
		case sideKinds[e.Kind] == 0:
			return nil, fmt.Errorf("entry %d has kind %d", index, e.Kind)
		case e.Kind == EntryLogStart:
			if _, err := journal.ParseLogStart(e.Data); err != nil {
				return nil, err
			}
		}
		term = e.Term
		sides = append(sides, journal.Record{Group: l.id, Body: e.side(end)})
	}
	return sides, nil
}

// passSideLocked moves the end over a side entry that is in the journal.
func (l *Log) passSideLocked(e *Entry) {
	l.endLocked(e.Index, slot{})
	if e.Kind == EntryNoop {
		l.mu.lastNoop = e.Index
		l.term.Store(int32(e.Term))
		l.addEpoch(segment.EpochStart{Epoch: kafkaproto.LeaderEpoch(e.Term), Start: l.EndOffset()})
	}
}

// endLocked makes the entry at index the last one.
func (l *Log) endLocked(index uint64, s slot) {
	l.mu.lastIndex = index
	l.raft.ring.add(index, s, l.raft.commit.Load())
	l.raft.last.Store(index)
}

// appendDataLocked writes a batch. rolled: it begins a new segment.
func (l *Log) appendDataLocked(e *Entry, nowMs int64) (rolled bool, err error) {
	m, b := &l.mu, e.Batch
	var p producer.Batch
	reserved := b.NextOffset() <= l.raft.reserved
	if b.HasProducer() && !reserved {
		if p, err = producer.Describe(b); err != nil {
			return false, err
		}
	}
	if err := l.store.space.check(l.config.Load().Internal, len(b)); err != nil {
		return false, err
	}
	if err := l.sidesDurable(); err != nil {
		return false, err
	}
	end := b.BaseOffset()
	if l.mustRoll(b, b.LastOffset(), nowMs) {
		if err := l.rollLocked(nowMs); err != nil {
			return false, err
		}
		rolled = true
	}
	if err := m.active.Append(b, e.Index); err != nil {
		return rolled, err
	}
	if m.appendedMs = nowMs; end == m.active.BaseOffset() {
		m.createdMs = nowMs
	}
	if b.HasProducer() && !reserved {
		l.prod.Lock()
		l.prod.state.Append(p, nowMs)
		l.publishTxnLocked()
		l.prod.Unlock()
	}
	l.raft.reserved = max(l.raft.reserved, b.NextOffset())
	l.end.Store(int64(b.NextOffset()))
	l.store.pages.appended(l)
	l.endLocked(e.Index, slot{end, uint32(b.LastOffsetDelta()) + 1, uint32(len(b))})
	return rolled, nil
}

// sidesDurable is R1: no batch is written before the side entries in front of it are durable.
func (l *Log) sidesDurable() error {
	if l.store.journal.SyncedPos() >= l.raft.sidePos || l.store.o.knobs.off.sideFirst {
		return nil
	}
	if err := l.store.journal.Sync(); err != nil {
		return l.store.fail(fmt.Errorf("sync journal: %w", err))
	}
	return nil
}

// voidSidesLocked takes back the side entries that stand in the journal behind a batch that could
// not be written: durably, or a later recovery would find them in their place again (R4).
func (l *Log) voidSidesLocked() error {
	g := l.raft.view.Load()
	if n := len(g.Sides); n == 0 || g.Sides[n-1].Index <= l.mu.lastIndex {
		return nil
	}
	err := l.store.journalCommit([]journal.Record{{Group: l.id, Body: journal.Reset{Last: l.mu.lastIndex}}})
	l.refreshView()
	if err != nil {
		return fmt.Errorf("%w: void side entries behind %d: %w", segment.ErrBroken, l.mu.lastIndex, err)
	}
	return nil
}
