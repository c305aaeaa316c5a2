package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitDenied      = 5
	exitUnreachable = 6
	exitInterrupted = 130
)

// exitError is an error with the exit code it means.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func failf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// exit says what went wrong and gives the exit code. A reader of our output that is gone is no
// news, as it is none to a program that SIGPIPE ends.
func (e *env) exit(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, syscall.EPIPE):
		return exitFailed
	case errors.Is(err, context.Canceled) && e.ctx.Err() != nil:
		return exitInterrupted
	}
	writeTo(e.stderr, "sluice: %s\n", strings.TrimSpace(err.Error()))
	return codeOf(err)
}

// codeOf finds the exit code of an error: its own, or the one that its cause means.
func codeOf(err error) int {
	var x *exitError
	var k *kerr.Error
	var n *net.OpError
	var d *net.DNSError
	switch {
	case errors.As(err, &x):
		return x.code
	case errors.As(err, &k):
		return codeOfKafka(k)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &n), errors.As(err, &d):
		return exitUnreachable
	}
	return exitFailed
}

func codeOfKafka(k *kerr.Error) int {
	switch k {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.GroupIDNotFound,
		kerr.ResourceNotFound:
		return exitNotFound
	case kerr.TopicAlreadyExists, kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic,
		kerr.ReassignmentInProgress, kerr.FencedInstanceID:
		return exitConflict
	case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.SecurityDisabled, kerr.PolicyViolation, kerr.TopicDeletionDisabled:
		return exitDenied
	case kerr.RequestTimedOut, kerr.BrokerNotAvailable, kerr.CoordinatorNotAvailable,
		kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.LeaderNotAvailable:
		return exitUnreachable
	}
	return exitFailed
}

// kafkaf is what the broker said of one thing: the broker's own words when it gave some, else those
// of its error code.
func kafkaf(subject string, err error, said string) error {
	if err == nil {
		return nil
	}
	var k *kerr.Error
	if !errors.As(err, &k) {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if said == "" {
		said = k.Description
	}
	return failf(codeOfKafka(k), "%s: %s (%s)", subject, strings.TrimSuffix(said, "."), k.Message)
}

// flagError names the nearest flag to one that is not known.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if unknown, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		return usagef("--%s is no flag of %q%s", unknown, cmd.CommandPath(),
			suggestFlag(cmd, unknown))
	}
	return usagef("%s; see %q", text, cmd.CommandPath()+" --help")
}
