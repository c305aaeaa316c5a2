// Package cluster runs the real broker for the compatibility tests: it builds the sluice binary once
// per test process, starts it as a child with its data in a temporary directory, and kills, stops
// and restarts it.
//
//	test ──Start──▶ go build (once) ──▶ sluice serve ──▶ 127.0.0.1:port
//	     ──Kill────▶ SIGKILL            same directory, same port
//	     ──Restart─▶ exec again ────────▶ recovery
//
// Invariants:
//
//	C1  A broker keeps its address and directory through Kill, Stop and Restart, so that a client
//	    which reconnects finds the same broker.
//	C2  Nothing outlives the test: the child is killed and its directory removed by Cleanup.
//	C3  Ready means that the client port accepts a connection, never that a log line was seen.
//
// Each running child has one goroutine, which waits for its exit; it ends with the child.
package cluster
