// Package vfs is the file system as an interface, with the variants that tests need.
//
//	OS()           the machine's: fdatasync, syncfs with a descriptor kept open, fadvise, flock
//	Memory()       in memory
//	Inject(fs)     any of them, with errors where rules say so: the nth write, a full disk ...
//	PowerLoss(n)   in memory, and knows what a crash may take away
//
// Invariants:
//
//	V1  What was synced survives every crash; what was not may survive in part, sector by sector.
//	V2  Rename is atomic: after a crash the old or the new name leads to the file.
//	V3  A failed or short write leaves the bytes before it as they were.
//
// This package starts no goroutine.
package vfs
