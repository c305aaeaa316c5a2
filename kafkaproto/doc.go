// Package kafkaproto is the wire: the names, numbers and errors of Kafka's protocol that every
// layer above shares. It imports nothing of ours.
//
//	kafkaproto         ids, error classes
//	kafkaproto/clock   time as an interface
//	kafkaproto/batch   record batch v2: view, check, patch, build, compress
//	kafkaproto/server  listeners and connections
//
// Invariants:
//
//	K1  Bytes from the network never panic and never allocate more than they prove.
//	K2  A client's fault is a Kafka error code (kerr), never a dropped connection where Kafka
//	    answers.
//	K3  Corruption is marked (MarkCorrupt) and tested with one predicate (IsCorrupt).
//
// This package starts no goroutine.
package kafkaproto
