package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// env is what a verb may touch of the process, so that tests can give their own.
type env struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// exitError is an error with the exit code it means.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// Main runs one command line and gives the exit code.
func Main(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	root := e.root()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "sluice: %v\n", err)
	var x *exitError
	if errors.As(err, &x) {
		return x.code
	}
	return exitFailed
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A log broker that speaks Kafka's wire protocol",
		Example: `  sluice dev                                       # try it: data is gone on exit
  sluice serve                                     # keep data, fsync before acknowledging
  sluice serve server.properties --override num.partitions=3`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &exitError{exitUsage, err}
	})
	root.AddCommand(e.serveCommand(), e.devCommand(), e.versionCommand())
	return root
}
