// Package cli is the command line: one file per verb, each with its own help.
//
// Data goes to stdout, talk to stderr. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 already
// exists, 5 denied, 6 unreachable or timed out, 130 interrupted.
//
// Goroutines: the broker's signal watcher, which ends with the verb.
package cli
