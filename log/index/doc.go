// Package index is the bytes of the files beside a segment's .log, and the lists that hold an
// active segment's entries in memory.
//
//	.index      Kafka's   relative last offset of a batch -> its position
//	.timeindex  Kafka's   largest timestamp so far -> relative last offset of the batch that has it
//	.txnindex   Kafka's   aborted transactions by marker
//	.raftindex  ours      what the indexes cover (Summary), and raft index -> batch
//	.sum        ours      checksums of blocks of whole batches
//
// FORMAT.md of package log draws them. Kafka's files have no header, so the Summary at the start of
// .raftindex holds the number of their entries and a CRC over them.
//
// Invariants:
//
//	I1  A decoder takes any bytes, and gives entries in strictly ascending order or an error.
//	I2  A file of ours of a newer version is refused by name and version, never called corrupt.
//	I3  List: one writer, any number of readers, no lock; a view never changes under its reader.
//
// This package touches no file and starts no goroutine.
package index
