package group

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluicelog/sluice/kafkaproto"
)

// logger is raft's logger. Its notes of elections and messages are for who debugs; its panics are
// broken invariants, and stay panics.
type logger struct{ l *slog.Logger }

func newLogger(l *slog.Logger, tp kafkaproto.TopicPartition, self uint64) logger {
	return logger{l.With("partition", tp.String(), "replica", self)}
}

func (l logger) say(level slog.Level, v []any) {
	if l.l.Enabled(context.Background(), level) {
		l.l.Log(context.Background(), level, "raft: "+fmt.Sprint(v...))
	}
}

func (l logger) sayf(level slog.Level, format string, v []any) {
	if l.l.Enabled(context.Background(), level) {
		l.l.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, v...))
	}
}

func (l logger) Debug(v ...any)                   { l.say(slog.LevelDebug-4, v) }
func (l logger) Debugf(format string, v ...any)   { l.sayf(slog.LevelDebug-4, format, v) }
func (l logger) Info(v ...any)                    { l.say(slog.LevelDebug, v) }
func (l logger) Infof(format string, v ...any)    { l.sayf(slog.LevelDebug, format, v) }
func (l logger) Warning(v ...any)                 { l.say(slog.LevelInfo, v) }
func (l logger) Warningf(format string, v ...any) { l.sayf(slog.LevelInfo, format, v) }
func (l logger) Error(v ...any)                   { l.say(slog.LevelWarn, v) }
func (l logger) Errorf(format string, v ...any)   { l.sayf(slog.LevelWarn, format, v) }
func (l logger) Fatal(v ...any)                   { panic("raft: " + fmt.Sprint(v...)) }
func (l logger) Fatalf(format string, v ...any)   { panic("raft: " + fmt.Sprintf(format, v...)) }
func (l logger) Panic(v ...any)                   { panic("raft: " + fmt.Sprint(v...)) }
func (l logger) Panicf(format string, v ...any)   { panic("raft: " + fmt.Sprintf(format, v...)) }
