package node

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/replica/engine"
)

// Between two attempts to open partitions.
const (
	reopenFirst = 500 * time.Millisecond
	reopenMost  = 30 * time.Second
)

// reopener opens partitions that are in the metadata and could not be opened when they came, as on a full
// disk: again and again, ever more seldom, until all of them are open or the broker stops. The timer is the
// clock's; close waits for an attempt that runs.
type reopener struct {
	clock clock.Clock
	log   *slog.Logger
	// open tries those that are missing, and gives how many are left and why. It is called with mu held.
	open func() (left int, err error)

	// mu serializes what opens and closes partitions by the image: imageChanged and the attempts.
	mu      sync.Mutex
	timer   clock.Timer // nil: nothing is missing
	backoff time.Duration
	closed  bool
	img     *meta.Image // the newest that imageChanged was given
	groups  *group.Service

	state sync.Mutex // guards text, which health asks for while an attempt may take long
	text  string
}

func (r *reopener) say(text string) {
	r.state.Lock()
	r.text = text
	r.state.Unlock()
}

// note is what /readyz tells of partitions that are missing, "" when none is.
func (r *reopener) note() string {
	r.state.Lock()
	defer r.state.Unlock()
	return r.text
}

// failedLocked begins to try again. The caller holds mu.
func (r *reopener) failedLocked(left int, err error) {
	if r.closed {
		return
	}
	r.say(fmt.Sprintf("%d cannot be opened, which is tried again: %v", left, err))
	if r.timer == nil { // once, and not for each attempt
		r.log.Error("partitions not opened; it is tried again until it succeeds", "partitions", left, "err", err)
	} else {
		r.timer.Stop()
	}
	r.backoff = reopenFirst
	r.timer = r.clock.AfterFunc(r.backoff, r.again)
}

func (r *reopener) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.timer == nil {
		return
	}
	r.timer.Stop() // another one, when this call had to wait for failedLocked
	left, err := r.open()
	if err == nil {
		r.timer = nil
		r.say("")
		r.log.Info("all partitions are open")
		return
	}
	r.say(fmt.Sprintf("%d cannot be opened, which is tried again: %v", left, err))
	r.log.Debug("partitions not opened", "partitions", left, "err", err)
	r.backoff = min(2*r.backoff, reopenMost)
	r.timer = r.clock.AfterFunc(r.backoff, r.again)
}

// attach has the groups of partitions that are opened later loaded.
func (r *reopener) attach(g *group.Service) {
	r.mu.Lock()
	r.groups = g
	r.mu.Unlock()
}

// close ends the attempts, and waits for one that runs.
func (r *reopener) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// openMissing opens what the newest image has and the engine does not. The caller holds the reopener's mu.
func (n *Node) openMissing() (left int, err error) {
	img := n.reopen.img
	missing := n.missing(img)
	if len(missing) == 0 {
		return 0, nil
	}
	err = n.engine.Open(missing...)
	n.broker.PublishTopics(img)
	for i := range missing {
		s := &missing[i]
		p := n.engine.ByID(s.ID)
		switch {
		case p == nil:
			left++
		case s.TP.Topic == group.OffsetsTopic && n.reopen.groups != nil && n.cluster == nil:
			n.reopen.groups.Lead(s.TP.Partition)
		}
	}
	return left, err
}

// missing are the partitions that the image puts on this broker and the engine does not have.
func (n *Node) missing(img *meta.Image) []engine.Spec {
	var missing []engine.Spec
	for t := range img.Topics() {
		for _, s := range n.follow(t) {
			if n.engine.ByID(s.ID) == nil {
				missing = append(missing, s)
			}
		}
	}
	return missing
}
