package pid

import (
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Controller is what the allocator needs of *quorum.Controller.
type Controller interface {
	// Submit runs the command and calls reply once its records are durable.
	Submit(cmd meta.Command, reply func(meta.Result, error))
}

// Allocator hands out producer ids, each once for ever.
type Allocator struct{}

// New makes an allocator and fetches the first block in the background.
func New(c Controller, node kafkaproto.NodeID) *Allocator { panic("todo") }

// Next gives a fresh id; it waits when the next block is still on its way.
func (a *Allocator) Next() (kafkaproto.ProducerID, error) { panic("todo") }

// Draw is Next without waiting: reply is called once, at once or when the block has come.
func (a *Allocator) Draw(reply func(kafkaproto.ProducerID, error)) { panic("todo") }
