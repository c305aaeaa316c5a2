package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/log/vfs"
)

// devFlags are the flags of dev.
type devFlags struct {
	overrides []string
	port      uint16
	portSet   bool
	readyFile string
}

func (e *env) devCommand() *cobra.Command {
	var o devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a broker to try things: fresh data, gone on exit",
		Long: `The data lies in a temporary directory and is removed at the end, so durability is relaxed.
--ready-file names a file that is written once clients can connect, for tests in any language:
{"bootstrap":"localhost:41234","http":["http://127.0.0.1:41235/"],"cluster_id":"...","pid":4711}`,
		Example: `  sluice dev
  sluice dev --port 19092
  sluice dev --port 0 --ready-file ready.json       # any free port
  sluice dev --override num.partitions=6`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.portSet = cmd.Flags().Changed("port")
			return e.dev(o)
		},
	}
	f := cmd.Flags()
	f.Uint16Var(&o.port, "port", 9092, "port of the Kafka listener; 0 takes any that is free")
	f.StringVar(&o.readyFile, "ready-file", "", "write addresses to this file once clients can connect")
	f.StringArrayVar(&o.overrides, "override", nil, "set one key, as key=value; may be repeated")
	return cmd
}

func (e *env) dev(o devFlags) (err error) {
	given, err := e.layers(nil, o.overrides)
	if err != nil {
		return err
	}
	layers, err := o.layers(given)
	if err != nil {
		return err
	}
	sweepDev(os.TempDir())
	dir, err := os.MkdirTemp("", devPrefix)
	if err != nil {
		return fmt.Errorf("make a temporary data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.readyFile != "" {
		// One of an earlier run must not be taken for ours.
		if err := os.Remove(o.readyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--ready-file: %w", err)
		}
		defer os.Remove(o.readyFile)
	}
	return e.serve(broker{
		layers: layers, dir: dir, log: e.logger(true), otherPort: "--port 19092, or --port 0 for any",
		ready: func(s *screen) error {
			if !e.quiet {
				s.text(e.stderr)
				e.recipes(s.bootstrap())
			}
			return o.writeReady(s)
		},
	})
}

// layers puts dev's own settings below those given, and --port above the environment's.
func (o *devFlags) layers(given []config.Layer) ([]config.Layer, error) {
	dev := config.Layer{Name: "sluice dev", Values: map[string]string{
		"sluice.durability": "relaxed", "group.initial.rebalance.delay.ms": "0",
	}}
	if !o.portSet {
		return append([]config.Layer{dev}, given...), nil
	}
	overrides := given[len(given)-1]
	if overrides.Values["listeners"] != "" {
		return nil, usagef("--port and --override listeners say the same; drop one")
	}
	port := config.Layer{Name: "--port", Values: map[string]string{
		"listeners": fmt.Sprintf("PLAINTEXT://:%d", o.port),
	}}
	if o.port == 0 {
		dev.Values["sluice.http.listeners"] = "127.0.0.1:0" // many may run beside each other
	}
	layers := append([]config.Layer{dev}, given[:len(given)-1]...)
	return append(layers, port, overrides), nil
}

// recipes prints lines to paste into a second terminal.
func (e *env) recipes(addr string) {
	at := ""
	if addr != "localhost:"+defaultPort {
		at = " -b " + addr
	}
	writeTo(e.stderr, `The data is gone on exit (Ctrl-C). In a second terminal:
  sluice topic create orders -p 6%[1]s
  printf 'u1:{"total":10}\nu2:{"total":7}\n' | sluice produce orders -K:%[1]s
  sluice consume orders -o start:end -f '%%p/%%o %%d{rfc3339} %%k=%%v\n'%[1]s
  kcat -b %[2]s -C -t orders -o beginning -e
`, at, addr)
}

// readyFile is what other programs learn of a broker for tests.
type readyFile struct {
	Bootstrap string        `json:"bootstrap"`
	HTTP      []string      `json:"http"`
	ClusterID string        `json:"cluster_id"`
	PID       int           `json:"pid"`
	Listeners []listenerRow `json:"listeners"`
}

// writeReady writes the file whole: who sees it can read it.
func (o *devFlags) writeReady(s *screen) error {
	if o.readyFile == "" {
		return nil
	}
	var b bytes.Buffer
	err := writeJSON(&b, readyFile{
		Bootstrap: s.bootstrap(), HTTP: append([]string{}, s.http...), ClusterID: s.cluster,
		PID: os.Getpid(), Listeners: s.listeners,
	}, "")
	if err != nil {
		return err
	}
	tmp := o.readyFile + ".tmp"
	if err := os.WriteFile(tmp, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	if err := os.Rename(tmp, o.readyFile); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	return nil
}

const devPrefix = "sluice-dev-"

// sweepDev removes the directories of dev brokers that were killed. One that runs holds its lock; one
// that has none yet is left alone.
func sweepDev(tmp string) {
	found, err := filepath.Glob(filepath.Join(tmp, devPrefix+"*", lockName))
	if err != nil {
		return
	}
	for _, name := range found {
		lock, err := vfs.OS().Lock(name)
		if err != nil {
			continue
		}
		if dir := filepath.Dir(name); strings.HasPrefix(filepath.Base(dir), devPrefix) {
			_ = os.RemoveAll(dir) // what cannot be removed now may be the next time
		}
		_ = lock.Close()
	}
}
