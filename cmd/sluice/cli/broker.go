package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/log/vfs"
)

// stopBound is how long a clean stop may take.
const stopBound = 30 * time.Second

// broker is what serve and dev run.
type broker struct {
	layers []config.Layer
	dir    string // "": where the configuration says
	log    *slog.Logger
	// ready is called once clients can connect; nil shows serve's first screen.
	ready func(s *screen) error
	// otherPort says how to choose another port, for the error about one in use.
	otherPort string
}

// logger writes text to somebody who looks at it, else JSON. calm leaves out what is not a warning.
func (e *env) logger(calm bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	switch {
	case e.verbose:
		o.Level = slog.LevelDebug
	case e.quiet || calm:
		o.Level = slog.LevelWarn
	}
	if isTerminal(e.stderr) {
		return slog.New(slog.NewTextHandler(e.stderr, o))
	}
	return slog.New(slog.NewJSONHandler(e.stderr, o))
}

// serve runs a broker until a signal comes or the data directory fails.
func (e *env) serve(b broker) error {
	static, warnings, err := config.NewStatic(b.layers...)
	for _, w := range warnings {
		b.log.Warn(w.Text)
	}
	if err != nil {
		return usagef("the configuration is not usable: %w", err)
	}
	if b.dir == "" {
		if b.dir, err = e.dataDir(static.Get("log.dirs")); err != nil {
			return err
		}
	}
	// Whoever read our output may leave: that must not stop a broker.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	failed := make(chan error, 1)
	started := time.Now()
	n, err := node.Start(e.ctx, node.Options{
		Static: static, Dir: b.dir, Logger: b.log, Version: version(),
		OnFailed: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err != nil {
		return b.startError(static, err)
	}
	if b.ready == nil {
		b.ready = e.firstScreen
	}
	err = b.ready(newScreen(n, static, b, time.Since(started)))
	if err == nil {
		e.notify("READY=1\nSTATUS=serving")
		select {
		case err = <-failed:
			err = fmt.Errorf("data directory %s takes no more writes: %w", b.dir, err)
		case <-e.ctx.Done():
		}
	}
	e.notify("STOPPING=1")
	return errors.Join(err, b.stop(n))
}

func (b *broker) stop(n *node.Node) error {
	b.log.Info("stopping")
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	err := n.Stop(ctx)
	b.log.Info("stopped", "took_ms", time.Since(began).Milliseconds(), "clean", err == nil)
	return err
}

// startError says in one sentence why a broker did not start, and what to do.
func (b *broker) startError(static *config.Static, err error) error {
	listeners := static.Get("listeners")
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && strings.Contains(err.Error(), "sluice.http.listeners"):
		return failf(exitConflict, "%w", err)
	case errors.Is(err, syscall.EADDRINUSE):
		other := b.otherPort
		if other == "" {
			other = "--override listeners=PLAINTEXT://:19092"
		}
		return failf(exitConflict, "the address of %s is in use, perhaps by another broker; stop that, or "+
			"choose another port with %s", listeners, other)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failf(exitFailed, "no interface of this machine has the address of %s; listeners names "+
			"where to listen, advertised.listeners where clients connect", listeners)
	case errors.Is(err, vfs.ErrLocked):
		return failf(exitConflict, "data directory %s is in use by another broker; stop that, or choose "+
			"another directory with --data", b.dir)
	case errors.Is(err, os.ErrPermission):
		return failf(exitDenied, "%w; let this user write there, or choose another directory with --data", err)
	}
	// The store says itself what it was opening.
	if text, ok := strings.CutPrefix(err.Error(), "open the data directory: "); ok {
		return failf(exitFailed, "%s", text)
	}
	return err
}
