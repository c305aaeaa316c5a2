// Package segment is one segment of a partition: a .log file of whole batches, back to back, and
// the indexes beside it.
//
// This package starts no goroutine.
package segment
