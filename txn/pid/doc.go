// Package pid hands out producer ids (KIP-98), each once for ever.
//
//	metadata log --block of 1000--> Allocator --Next--> one id
//	                                    |
//	              the next block is asked for while the last tenth of this one goes out
//
// Invariants:
//
//	P1  An id comes out of a block that is durable in the metadata log, so none comes twice, not
//	    after a crash either: what was left of a block is lost, never used again (ruling 18).
//	P2  One request for a block is under way at most. No lock is held over it.
//	P3  Every caller is answered: by an id, or by the error that its block failed with.
//
// This package starts no goroutine: the controller's calls it back.
package pid
