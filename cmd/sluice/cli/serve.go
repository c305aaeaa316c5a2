package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/controller/config"
)

func (e *env) serveCommand() *cobra.Command {
	var overrides, seeds []string
	var data string
	cmd := &cobra.Command{
		Use:   "serve [server.properties]",
		Short: "Run a broker; what it acknowledges is on disk",
		Long: `Settings come from the file, then from KAFKA_* variables, then from --override; the later wins.
"sluice config print" shows them, "sluice config explain KEY" says what one means.
Data lies in --data or log.dirs, else in $XDG_DATA_HOME/sluice. SIGTERM stops within 30 s.`,
		Example: `  sluice serve
  sluice serve --data ./sluicedata --override num.partitions=3
  sluice serve server.properties
  KAFKA_NUM_PARTITIONS=3 sluice serve --override listeners=PLAINTEXT://127.0.0.1:19092`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(seeds) > 0 {
				overrides = append(overrides, "sluice.seeds="+strings.Join(seeds, ","))
			}
			layers, err := e.layers(args, overrides)
			if err != nil {
				return err
			}
			return e.serve(broker{layers: layers, dir: data, log: e.logger(false)})
		},
	}
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "set one key, as key=value; may be repeated")
	cmd.Flags().StringSliceVar(&seeds, "seeds", nil, "brokers to found a cluster with, or whose cluster to join (host:port of sluice.peer.listener)")
	cmd.Flags().StringVar(&data, "data", "", "data directory, instead of log.dirs")
	return cmd
}

// layers reads the static configuration: file, then environment, then overrides (later wins).
func (e *env) layers(files, overrides []string) ([]config.Layer, error) {
	var layers []config.Layer
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, failf(exitNotFound, "read the configuration: %w", err)
		}
		values, err := config.ParseProperties(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, usagef("%s: %w", name, err)
		}
		layers = append(layers, config.Layer{Name: filepath.Base(name), Values: values})
	}
	layers = append(layers, config.Layer{Name: "environment", Values: config.FromEnv(e.environ)})
	pairs, err := keyValues("--override", overrides)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for _, p := range pairs {
		values[p[0]] = p[1]
	}
	return append(layers, config.Layer{Name: "--override", Values: values}), nil
}

// dataDir chooses where data lies: what the configuration says, else the user's data directory,
// and never silently a temporary one.
func (e *env) dataDir(configured string) (string, error) {
	if configured = strings.TrimSpace(configured); configured != "" {
		return configured, nil
	}
	if x := e.getenv("XDG_DATA_HOME"); x != "" {
		return filepath.Join(x, "sluice"), nil
	}
	if h := e.getenv("HOME"); h != "" {
		return filepath.Join(h, ".local", "share", "sluice"), nil
	}
	return "", usagef("no data directory: set --data or log.dirs (HOME and XDG_DATA_HOME are unset)")
}
