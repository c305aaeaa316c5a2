package cli

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/controller/config"
)

// healthBound is how long a healthy broker may take to answer, unless --timeout says otherwise.
const healthBound = 3 * time.Second

func (e *env) healthcheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit with 0 when the broker answers, with 1 when it does not",
		Long: `For container engines: HEALTHCHECK CMD ["sluice", "healthcheck"]. Without -b the port is that of
the first listener in KAFKA_LISTENERS, if it is set.`,
		Example: `  sluice healthcheck
  sluice healthcheck -b localhost:19092 --timeout 1s
  until sluice healthcheck -q 2>/dev/null; do sleep 0.1; done`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{clientVerb: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("timeout") {
				e.timeout = healthBound
			}
			if len(e.bootstrap) == 0 && e.commandConfig == "" {
				e.bootstrap = e.ownListener()
			}
			err := e.admin(func(ctx context.Context, c *client) error {
				m, err := c.adm.BrokerMetadata(ctx)
				if err != nil {
					return err
				}
				if len(m.Brokers) == 0 {
					return failf(exitFailed, "the broker knows of no broker; it is still starting")
				}
				e.say("healthy: %s of cluster %s", count(int64(len(m.Brokers)), "broker"), m.Cluster)
				return nil
			})
			if err != nil && e.ctx.Err() == nil {
				return &exitError{exitFailed, err}
			}
			return err
		},
	}
	return cmd
}

// ownListener is the address of the broker that the same environment configures: the first
// plaintext listener. nil when the environment does not say.
func (e *env) ownListener() []string {
	values := config.FromEnv(e.environ)
	if values["listeners"] == "" {
		return nil
	}
	static, _, err := config.NewStatic(config.Layer{Name: "environment", Values: values})
	if err != nil {
		return nil
	}
	for _, l := range config.NewResolver(static).Broker().Listeners {
		if l.Protocol == "PLAINTEXT" {
			host := l.Host
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = "localhost"
			}
			return []string{net.JoinHostPort(host, strconv.Itoa(int(l.Port)))}
		}
	}
	return nil
}
