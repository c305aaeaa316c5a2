package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// env is what a verb may touch of the process, so that tests can give their own.
type env struct {
	// ctx ends at the first interrupt, SIGTERM or SIGHUP.
	ctx            context.Context
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	// now is the clock that relative times count from.
	now func() time.Time
	// asked makes a test somebody who can be asked.
	asked bool

	globals
}

// globals are the flags that every verb takes.
type globals struct {
	bootstrap     []string
	commandConfig string
	timeout       time.Duration
	quiet         bool
	verbose       bool
	color         string
}

// Main runs one command line and gives the exit code.
func Main(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, endings()...)
	defer signal.Stop(signals)
	go interrupts(ctx, signals, cancel)
	return run(ctx, args, environ, stdin, stdout, stderr)
}

// endings are the signals that end a verb cleanly. A terminal that is closed is one, but not to who
// was started by nohup.
func endings() []os.Signal {
	list := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interrupts ends the verb at the first signal and the process at the second.
func interrupts(ctx context.Context, signals <-chan os.Signal, cancel context.CancelFunc) {
	select {
	case <-signals:
		cancel()
	case <-ctx.Done():
		return
	}
	<-signals
	os.Exit(exitInterrupted)
}

// run is Main without the process: ctx stands for its signals.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{
		ctx: ctx, environ: environ, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now,
	}
	root := e.root()
	root.SetArgs(args)
	return e.exit(root.Execute())
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A log broker that speaks Kafka's wire protocol",
		Example: `  sluice dev                                   # try it: the data is gone on exit
  sluice serve                                 # keep data; what is acknowledged is on disk
  sluice topic create orders -p 6
  echo 'u1:{"total":10}' | sluice produce orders -K:
  sluice consume orders -f '%p/%o %k=%v\n'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          e.noun,
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetHelpFunc(e.help)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true, RunE: func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return e.noun(root, args)
		}
		return cmd.Help()
	}})
	e.globalFlags(root)
	root.AddCommand(e.serveCommand(), e.devCommand(), e.topicCommand(), e.produceCommand(),
		e.consumeCommand(), e.groupCommand(), e.configCommand(), e.logCommand(),
		e.healthcheckCommand(), e.completionCommand(), e.versionCommand())
	usageErrors(root)
	return root
}

// usageErrors makes the library's complaints about arguments usage errors, for all commands.
func usageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var x *exitError
			if err == nil || errors.As(err, &x) {
				return err
			}
			return usagef("%q does not take these arguments: %s; see %q", cmd.CommandPath(),
				strings.Join(args, " "), cmd.CommandPath()+" --help")
		}
	}
	for _, c := range cmd.Commands() {
		usageErrors(c)
	}
}

func (e *env) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringSliceVarP(&e.bootstrap, "bootstrap-server", "b", e.list("SLUICE_BOOTSTRAP_SERVER"),
		"brokers, as host:port,... (default localhost:9092)")
	f.StringVar(&e.commandConfig, "command-config", e.getenv("SLUICE_COMMAND_CONFIG"),
		"client.properties: security.protocol, ssl.*")
	f.DurationVar(&e.timeout, "timeout", 10*time.Second, "how long to wait for the broker")
	f.BoolVarP(&e.quiet, "quiet", "q", false, "say nothing but errors")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "say what the client does")
	f.StringVar(&e.color, "color", "auto", "auto, always or never; NO_COLOR is heeded")
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "brokers" {
			name = "bootstrap-server"
		}
		return pflag.NormalizedName(name)
	})
	f.Lookup("bootstrap-server").DefValue = ""
	f.Lookup("command-config").DefValue = ""
}

// noun is a command that only holds others: alone it shows its help, and an unknown verb is an
// error that names the nearest one.
func (e *env) noun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef("%q is no command of %q%s", args[0], cmd.CommandPath(), suggest(args[0], names))
}

// getenv gives a variable of the environment; "" when it is not set.
func (e *env) getenv(name string) string {
	for i := len(e.environ) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(e.environ[i], "="); k == name {
			return v
		}
	}
	return ""
}

func (e *env) list(name string) []string {
	if v := e.getenv(name); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}
