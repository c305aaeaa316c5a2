package pid

import (
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Controller is what the allocator needs of *quorum.Controller.
type Controller interface {
	// Submit runs a command and calls reply once, when its records are durable or will never be.
	Submit(cmd meta.Command, reply func(meta.Result, error))
}

// refillAt is how many ids are left when the next block is asked for.
const refillAt = meta.ProducerIDBlockSize / 10

// Allocator hands out producer ids. All methods may be called by any goroutine.
type Allocator struct {
	controller Controller
	node       kafkaproto.NodeID

	mu struct {
		sync.Mutex
		next, end kafkaproto.ProducerID // what is left of the block in use
		spare     *meta.ProducerIDBlock // the block after it
		asked     bool                  // a block is under way
		waiting   []func(kafkaproto.ProducerID, error)
	}
}

// New makes an allocator and asks for its first block.
func New(c Controller, node kafkaproto.NodeID) *Allocator {
	a := &Allocator{controller: c, node: node}
	a.mu.asked = true
	a.ask()
	return a
}

// Next gives a fresh id. It waits when no block is left and the next is still on its way.
func (a *Allocator) Next() (kafkaproto.ProducerID, error) {
	type answer struct {
		id  kafkaproto.ProducerID
		err error
	}
	ch := make(chan answer, 1)
	a.Draw(func(id kafkaproto.ProducerID, err error) { ch <- answer{id, err} })
	got := <-ch
	return got.id, got.err
}

// Draw is Next without waiting: reply is called once, before Draw returns or, when a block is still
// on its way, on the controller's goroutine, which it must not block.
func (a *Allocator) Draw(reply func(kafkaproto.ProducerID, error)) {
	a.mu.Lock()
	id, ok := a.takeLocked()
	if !ok {
		a.mu.waiting = append(a.mu.waiting, reply)
	}
	ask := a.mustAskLocked()
	a.mu.Unlock()
	if ask {
		a.ask()
	}
	if ok {
		reply(id, nil)
	}
}

func (a *Allocator) takeLocked() (id kafkaproto.ProducerID, ok bool) {
	m := &a.mu
	if m.next == m.end && m.spare != nil {
		m.next = m.spare.First
		m.end = m.next + kafkaproto.ProducerID(m.spare.Count)
		m.spare = nil
	}
	if m.next == m.end {
		return 0, false
	}
	m.next++
	return m.next - 1, true
}

// mustAskLocked decides whether the caller asks for a block, after it has let the lock go.
func (a *Allocator) mustAskLocked() bool {
	m := &a.mu
	if m.asked || m.spare != nil || m.end-m.next > refillAt {
		return false
	}
	m.asked = true
	return true
}

func (a *Allocator) ask() {
	a.controller.Submit(meta.AllocateProducerIDs{Node: a.node}, a.arrived)
}

// arrived takes a block in and answers who waits. When it failed, they hear of it, and the next
// caller asks again.
func (a *Allocator) arrived(res meta.Result, err error) {
	block, ok := res.(meta.ProducerIDBlock)
	if err == nil && (!ok || block.Count < 1) {
		panic(fmt.Sprintf("pid: block %+v", res))
	}
	type answer struct {
		reply func(kafkaproto.ProducerID, error)
		id    kafkaproto.ProducerID
		err   error
	}
	a.mu.Lock()
	a.mu.asked = false
	if err == nil {
		a.mu.spare = &block
	} else {
		err = retriable(err)
	}
	var answers []answer
	for len(a.mu.waiting) > 0 {
		id, ok := a.takeLocked()
		if !ok && err == nil {
			break // more callers than ids in the block
		}
		x := answer{reply: a.mu.waiting[0], id: id}
		if !ok {
			x.err = err
		}
		answers = append(answers, x)
		a.mu.waiting = a.mu.waiting[1:]
	}
	ask := err == nil && a.mustAskLocked()
	a.mu.Unlock()
	if ask {
		a.ask()
	}
	for _, x := range answers {
		x.reply(x.id, x.err)
	}
}

// retriable is the error that a producer is told when no block could be had: it asks again on
// COORDINATOR_NOT_AVAILABLE, and gives up on most others.
func retriable(err error) error {
	var k *kerr.Error
	if errors.As(err, &k) && k.Retriable {
		return err
	}
	return kafkaproto.Faultf(kerr.CoordinatorNotAvailable, "no producer id block: %v", err)
}
