package quorum

import (
	"io"
	"log/slog"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// Options are what a Controller is made of.
type Options struct {
	Static *config.Static
	Clock  clock.Clock
	Logger *slog.Logger
	Random io.Reader // nil: crypto/rand
}

// Controller is the metadata of the cluster, live.
type Controller struct{}

// Open loads the newest snapshot, replays the log behind it and is ready for commands.
func Open(o Options) (*Controller, error) { panic("todo") }

// Image is the newest durable metadata.
func (c *Controller) Image() *meta.Image { panic("todo") }

// Subscribe calls fn for the present image (with an empty old one) and then for each later one, in
// order, before the commands behind it are answered. fn must not call Do.
func (c *Controller) Subscribe(fn func(old, new *meta.Image)) { panic("todo") }

// Do runs a command and returns when its records are durable.
func (c *Controller) Do(cmd meta.Command) (meta.Result, error) { panic("todo") }

// Submit is Do without waiting; reply is called once, on the controller's goroutine.
func (c *Controller) Submit(cmd meta.Command, reply func(meta.Result, error)) { panic("todo") }

// Call is Do with the result's type.
func Call[R meta.Result](c *Controller, cmd meta.Command) (R, error) { panic("todo") }

// NodeID is this broker's number.
func (c *Controller) NodeID() kafkaproto.NodeID { panic("todo") }

// ClusterID is the cluster's identity.
func (c *Controller) ClusterID() string { panic("todo") }

// Close stops the controller; commands not yet durable fail.
func (c *Controller) Close() error { panic("todo") }
