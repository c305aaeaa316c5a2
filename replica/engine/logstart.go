package engine

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/group"
)

// MoveLogStart proposes that the log begins at off, without waiting for it; in the solo form it does
// nothing.
func (p *Partition) MoveLogStart(off kafkaproto.Offset) {
	if r := p.rep.Load(); r != nil {
		r.do(func(g *group.Group) { _ = g.ProposeLogStart(off) }) // refused: it is asked for again
	}
}

// deleteTimeout bounds the wait for a log start to be committed.
const deleteTimeout = 30 * time.Second

// deleteRecords has the group move the log start to off and waits until it has.
func (r *replicated) deleteRecords(off kafkaproto.Offset) error {
	moved := make(chan error, 1)
	tell := func(err error) {
		select {
		case moved <- err:
		default:
		}
	}
	var w *Watcher
	w = NewWatcher(func() {
		w.Arm()
		if r.p.log.StartOffset() >= off {
			tell(nil)
		} else if gone := r.p.gone.Load(); gone != nil {
			tell(*gone)
		}
	})
	r.p.Watch(w)
	defer r.p.Unwatch(w)
	r.do(func(g *group.Group) {
		if err := g.ProposeLogStart(off); err != nil {
			tell(err)
		}
	})
	timer := r.e.clock.AfterFunc(deleteTimeout, func() {
		tell(kafkaproto.Faultf(kerr.RequestTimedOut, "the log start of %s is not committed yet", r.p.tp))
	})
	defer timer.Stop()
	return <-moved
}
