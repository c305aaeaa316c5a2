// Package coordtest holds a coordinator's log in memory, for tests: commits come when the test
// says so, appends fail when it wants them to, and a crash leaves what it chooses.
//
// This package starts no goroutine.
package coordtest
