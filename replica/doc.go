// Package replica holds what makes one partition live: package engine leads it, hands out its
// high watermark and wakes who waits for it.
//
//	replica/engine      partitions led by this broker: append, read, high watermark, waits
//	replica/transport   the wire between brokers: raft messages, liveness, calls, streams
//
// It knows the log below and nothing of controllers, groups or transactions above: they are told
// to it as plain values.
package replica
