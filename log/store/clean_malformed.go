package store

import (
	"errors"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// A batch whose records cannot be read although its CRC is right is what a client sent (ErrMalformed),
// or expands to more than anybody will read (ErrTooLarge). Kafka's cleaner marks a partition with such a
// batch uncleanable, and its log grows for ever. Here the batch stays as it is, supersedes nothing, and
// the log around it is cleaned.

// malformed reports whether err is a client's doing, which is no fault of the disk.
func malformed(err error) bool {
	return !kafkaproto.IsCorrupt(err) &&
		(errors.Is(err, batch.ErrMalformed) || errors.Is(err, batch.ErrTooLarge))
}

// unlessMalformed drops the error of a batch that cannot be read.
func unlessMalformed(err error) error {
	if malformed(err) {
		return nil
	}
	return err
}

// keepUnread keeps a batch as it is whose records could not be read because of cause.
func (p *pass) keepUnread(b batch.Batch, cause error) error {
	if !malformed(cause) {
		return cause
	}
	if p.unread++; p.unread == 1 {
		p.firstUnread, p.unreadWhy = b.BaseOffset(), cause
	}
	p.lastUnread = b.BaseOffset()
	return p.keep(b)
}

// warnUnread tells of the batches that were kept unread, of each once in the life of the process.
func (p *pass) warnUnread() {
	warned := &p.log.clean.unreadTo
	if p.unread == 0 || p.lastUnread < *warned {
		return
	}
	*warned = p.lastUnread + 1
	p.c.s.log.Warn("records that a producer sent cannot be read; their batches are kept and the log is "+
		"cleaned around them", "partition", p.log.tp.String(), "batches", p.unread, "first",
		int64(p.firstUnread), "last", int64(p.lastUnread), "error", p.unreadWhy)
}
