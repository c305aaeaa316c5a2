package kafkaproto

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Fault is a client's fault or a state a client must know: a Kafka error code with a sentence that
// names the key, the value and the limit.
type Fault struct {
	Kafka *kerr.Error
	Text  string
}

// Faultf makes a Fault.
func Faultf(k *kerr.Error, format string, args ...any) error {
	return &Fault{Kafka: k, Text: fmt.Sprintf(format, args...)}
}

// Error gives the sentence with the code's name in front.
func (f *Fault) Error() string { return f.Kafka.Message + ": " + f.Text }

// Unwrap gives the *kerr.Error, so that errors.Is(err, kerr.X) works.
func (f *Fault) Unwrap() error { return f.Kafka }

// Code is the Kafka error code for err: 0 for nil, the code of the *kerr.Error in its chain, and
// KAFKA_STORAGE_ERROR for an operating fault. UNKNOWN_SERVER_ERROR is never made here: producers
// take it as "not written" and write twice (KAFKA-14034).
func Code(err error) int16 {
	if err == nil {
		return 0
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code
	}
	return kerr.KafkaStorageError.Code
}

// Message is the sentence to send beside Code(err): nil when there is nothing to say beyond the
// code itself.
func Message(err error) *string {
	if err == nil {
		return nil
	}
	var f *Fault
	if errors.As(err, &f) {
		return &f.Text
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return &k.Description
	}
	s := err.Error()
	return &s
}

// errCorrupt is the mark that IsCorrupt looks for.
var errCorrupt = errors.New("corrupt")

type corruptError struct{ err error }

func (c corruptError) Error() string        { return c.err.Error() }
func (c corruptError) Unwrap() error        { return c.err }
func (c corruptError) Is(target error) bool { return target == errCorrupt }

// MarkCorrupt marks err as "these bytes are not what was written": the partition goes offline.
func MarkCorrupt(err error) error {
	if err == nil {
		return nil
	}
	return corruptError{err}
}

// Corruptf is fmt.Errorf with the corruption mark.
func Corruptf(format string, args ...any) error { return corruptError{fmt.Errorf(format, args...)} }

// IsCorrupt reports whether err carries the corruption mark.
func IsCorrupt(err error) bool { return errors.Is(err, errCorrupt) }
