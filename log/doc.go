// Package log is the folder of everything that keeps one partition's records on this disk. It
// holds no code itself.
//
//	vfs        the file system as an interface: machine, memory, faults, power loss
//	segment    the bytes of one segment: .log and its indexes, in Kafka's formats and names
//	index      the bytes of the files beside a .log
//	journal    the broker's own log of votes, terms, no-ops and truncations
//	producer   idempotence and open transactions of a partition, pure
//	store      all logs of a data directory: recovery, committer, retention, cleaner
//
// FORMAT.md draws every format on disk.
package log
