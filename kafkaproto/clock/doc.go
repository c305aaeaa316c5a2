// Package clock makes time an argument. Every layer takes a Clock; only this package and the
// edges (cmd, kafkaproto/server) read the machine's clock. Tests use Manual, or System inside a
// testing/synctest bubble.
//
// This package starts no goroutine of its own; AfterFunc runs its function on the runtime's.
package clock
