package api

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

func TestFailedAppendsAreLoggedOnceASecond(t *testing.T) {
	var out bytes.Buffer
	hands := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := &Broker{Clock: hands, Log: slog.New(slog.NewTextHandler(&out, nil))}
	for range 6 {
		b.appendFailed(&Topic{Name: "orders"}, 3, errors.New("no space"))
	}
	if got := out.String(); strings.Count(got, "append failed") != 1 || !strings.Contains(got, "topic=orders partition=3 skipped=0") {
		t.Fatalf("logged: %s", got)
	}
	out.Reset()
	hands.Advance(time.Second)
	b.appendFailed(nil, 0, errors.New("no space"))
	if got := out.String(); !strings.Contains(got, "skipped=5") {
		t.Fatalf("logged: %s", got)
	}
}
