package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options say how a broker is started. The zero value is `sluice serve` with node id 1 on a free
// loopback port, its data in a directory that goes away with the test.
type Options struct {
	// Command is the verb, "serve" when empty.
	Command string
	// Overrides are passed as --override key=value, after and therefore above those of this package.
	Overrides []string
	// Args come last on the command line.
	Args []string
	// Env is added to the environment.
	Env []string
	// Dir holds data and the broker's output; a temporary directory when empty.
	Dir string
	// ReadyWithin bounds the wait for the client port, 20 s when zero.
	ReadyWithin time.Duration
}

// Broker is one sluice process and the directory and address that outlive its restarts.
type Broker struct {
	t       testing.TB
	options Options
	binary  string
	address string
	child   *child
}

// child is one execution of the binary. done is closed once the process is gone and err is set.
type child struct {
	command *exec.Cmd
	done    chan struct{}
	err     error
}

// Start builds the binary if need be, starts a broker and waits until it accepts a connection. The
// broker is killed when the test ends, and its output is shown when the test failed.
func Start(t testing.TB, o Options) *Broker {
	t.Helper()
	b := &Broker{t: t, options: o.withDefaults(t), binary: Binary(t), address: FreeAddress(t)}
	t.Cleanup(b.cleanup)
	b.Restart()
	return b
}

func (o Options) withDefaults(t testing.TB) Options {
	if o.Command == "" {
		o.Command = "serve"
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.ReadyWithin == 0 {
		o.ReadyWithin = 20 * time.Second
	}
	return o
}

// FreeAddress returns a loopback address that nothing listens on. Another process may take it before
// it is used; the kernel hands ports out in rotation, which makes that rare.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Address is the host and port of the PLAINTEXT listener.
func (b *Broker) Address() string { return b.address }

// Dir is the directory that holds the broker's data (under data) and output (broker.log).
func (b *Broker) Dir() string { return b.options.Dir }

// DataDir is the broker's log.dirs.
func (b *Broker) DataDir() string { return filepath.Join(b.options.Dir, "data") }

// PID is the process id of the running or last child.
func (b *Broker) PID() int { return b.child.command.Process.Pid }

// arguments is the command line after the binary's name.
func (b *Broker) arguments() []string {
	arguments := []string{b.options.Command}
	overrides := append([]string{
		"node.id=1",
		"listeners=PLAINTEXT://" + b.address,
		"log.dirs=" + b.DataDir(),
	}, b.options.Overrides...)
	for _, o := range overrides {
		arguments = append(arguments, "--override", o)
	}
	return append(arguments, b.options.Args...)
}

// Restart starts the binary again on the same directory and address, stopping a running child first,
// and waits until it is ready.
func (b *Broker) Restart() {
	b.t.Helper()
	if err := b.TryRestart(); err != nil {
		b.t.Fatalf("%v\n%s", err, b.Output())
	}
}

// TryRestart is Restart for a broker that may refuse to start; the error says how it ended.
func (b *Broker) TryRestart() error {
	if err := b.Launch(); err != nil {
		return err
	}
	return b.awaitReady()
}

// Launch starts the binary again as Restart does, and does not wait until it is ready: a test that
// kills a broker while it recovers begins with it.
func (b *Broker) Launch() error {
	if b.Running() {
		if err := b.Stop(); err != nil {
			return err
		}
	}
	output, err := os.OpenFile(filepath.Join(b.options.Dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(b.binary, b.arguments()...)
	command.Stdout, command.Stderr = output, output
	command.Env = append(os.Environ(), b.options.Env...)
	// The child dies with the test process even when that is killed.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	b.child = &child{command: command, done: make(chan struct{})}
	go b.child.wait()
	return nil
}

// wait reaps the process; it is the child's only goroutine.
func (c *child) wait() {
	c.err = c.command.Wait()
	close(c.done)
}

// awaitReady returns once the client port accepts a connection, or an error once the child is gone
// or the bound has passed.
func (b *Broker) awaitReady() error {
	deadline := time.Now().Add(b.options.ReadyWithin)
	for {
		if c, err := net.DialTimeout("tcp", b.address, time.Second); err == nil {
			return c.Close()
		}
		select {
		case <-b.child.done:
			return fmt.Errorf("the broker ended before it was ready: %v", b.child.err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer on %s within %s", b.address, b.options.ReadyWithin)
		}
	}
}

// Running says whether the child has not ended yet.
func (b *Broker) Running() bool {
	if b.child == nil {
		return false
	}
	select {
	case <-b.child.done:
		return false
	default:
		return true
	}
}

// Kill ends the child with SIGKILL, as a crash of the process does, and waits until it is gone.
func (b *Broker) Kill() {
	if b.Running() {
		b.Signal(syscall.SIGKILL)
		<-b.child.done
	}
}

// Signal sends a signal to the child: SIGSTOP and SIGCONT pause and resume it.
func (b *Broker) Signal(s syscall.Signal) {
	if err := b.child.command.Process.Signal(s); err != nil && b.Running() {
		b.t.Fatalf("signal %v: %v", s, err)
	}
}

// Stop ends the child with SIGTERM and waits. It returns an error when the child did not end within
// 30 s (it is then killed) or ended with a status other than 0.
func (b *Broker) Stop() error {
	if !b.Running() {
		return nil
	}
	b.Signal(syscall.SIGTERM)
	select {
	case <-b.child.done:
	case <-time.After(30 * time.Second):
		b.Kill()
		return fmt.Errorf("the broker did not stop within 30 s of SIGTERM")
	}
	if b.child.err != nil {
		return fmt.Errorf("the broker stopped with %w", b.child.err)
	}
	return nil
}

// Wait blocks until the child has ended by itself and returns how it ended.
func (b *Broker) Wait() error {
	<-b.child.done
	return b.child.err
}

// Output is all that the broker has printed, over all its restarts.
func (b *Broker) Output() string {
	out, err := os.ReadFile(filepath.Join(b.options.Dir, "broker.log"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (b *Broker) cleanup() {
	b.Kill()
	if b.t.Failed() {
		out := b.Output()
		const shown = 16 << 10
		if len(out) > shown {
			out = "…" + out[len(out)-shown:]
		}
		b.t.Logf("output of the broker:\n%s", out)
	}
}
