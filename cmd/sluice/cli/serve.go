package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
)

// stopBound is how long a clean stop may take.
const stopBound = 30 * time.Second

func (e *env) serveCommand() *cobra.Command {
	var overrides []string
	var data string
	cmd := &cobra.Command{
		Use:   "serve [server.properties]",
		Short: "Run the broker; what it acknowledges is on disk",
		Example: `  sluice serve
  sluice serve --data ./sluicedata --override num.partitions=3
  sluice serve server.properties
  KAFKA_NUM_PARTITIONS=3 sluice serve`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			layers, err := e.layers(args, overrides)
			if err != nil {
				return err
			}
			return e.run(layers, data, func(dir string, n *node.Node) {})
		},
	}
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "set one key, as key=value; may be repeated")
	cmd.Flags().StringVar(&data, "data", "", "data directory (log.dirs; default $XDG_DATA_HOME/sluice)")
	return cmd
}

// layers reads the static configuration: file, then environment, then overrides (later wins).
func (e *env) layers(files, overrides []string) ([]config.Layer, error) {
	var layers []config.Layer
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("read the configuration: %w", err)
		}
		values, err := config.ParseProperties(f)
		err = errors.Join(err, f.Close())
		if err != nil {
			return nil, usagef("%s: %w", name, err)
		}
		layers = append(layers, config.Layer{Name: filepath.Base(name), Values: values})
	}
	layers = append(layers, config.Layer{Name: "environment", Values: config.FromEnv(e.environ)})
	values := make(map[string]string)
	for _, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		if !ok || key == "" {
			return nil, usagef("--override %q is not key=value", o)
		}
		values[strings.TrimSpace(key)] = value
	}
	return append(layers, config.Layer{Name: "--override", Values: values}), nil
}

// run serves until a signal comes or the data directory fails.
func (e *env) run(layers []config.Layer, dir string, ready func(string, *node.Node)) error {
	logger := slog.New(slog.NewTextHandler(e.stderr, nil))
	static, warnings, err := config.NewStatic(layers...)
	if err != nil {
		return usagef("%w", err)
	}
	for _, w := range warnings {
		logger.Warn(w.Text, "key", w.Key)
	}
	if dir == "" {
		if dir, err = e.dataDir(static.Get("log.dirs")); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	started := time.Now()
	n, err := node.Start(node.Options{Static: static, Dir: dir, Logger: logger, Version: version(), OnFailed: func(err error) {
		select {
		case failed <- err:
		default:
		}
	}})
	if err != nil {
		return err
	}
	e.announce(n, dir, time.Since(started))
	ready(dir, n)
	select {
	case err = <-failed:
		err = fmt.Errorf("the data directory takes no more writes: %w", err)
	case <-e.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	return errors.Join(err, n.Stop(ctx))
}

// announce says where the broker is reached and where its data lies.
func (e *env) announce(n *node.Node, dir string, took time.Duration) {
	for name, addr := range n.Addrs() {
		writeTo(e.stderr, "sluice %s ready in %d ms   %s %s   cluster %s   data %s\n",
			version(), took.Milliseconds(), name, addr, n.ClusterID(), dir)
	}
	for _, addr := range n.HTTPAddrs() {
		writeTo(e.stderr, "http://%s   /metrics /readyz /livez /debug/pprof/\n", addr)
	}
}

// dataDir chooses where data lies: what the configuration says, else the user's data directory,
// and never silently a temporary one.
func (e *env) dataDir(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	vars := make(map[string]string)
	for _, kv := range e.environ {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	if x := vars["XDG_DATA_HOME"]; x != "" {
		return filepath.Join(x, "sluice"), nil
	}
	if h := vars["HOME"]; h != "" {
		return filepath.Join(h, ".local", "share", "sluice"), nil
	}
	return "", usagef("no data directory: set --data or log.dirs (HOME and XDG_DATA_HOME are unset)")
}
