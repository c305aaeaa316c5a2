// Package tidy holds the rules of the house as tests: who may import whom, what every package must
// say of itself, what a core may not call, and how long files and functions may be.
//
//	kafkaproto <- log <- replica <- controller <- txn <- cmd <- compat      imports go left only
//
// The rules:
//
//	imports_test.go  layers, the seven folders, packages that are not used here
//	docs_test.go     a package comment in doc.go, a comment on each exported name
//	calls_test.go    clocks and sleeps only at the edges, no init
//	sizes_test.go    functions of at most 70 lines and files of at most 500, by ratchet
//	api_test.go      handler files are the rows of the request table, each with its test
//	words_test.go    paths of one machine, hosts of registries, marks of unfinished work
//
// What broke a soft rule before the rule was there stands in testdata/ratchet.txt with its size: it
// may shrink and not grow. `make generate` writes that list anew; a reviewer sees what was added.
//
// Goroutines: none.
package tidy
