// Package diff compares the broker with Apache Kafka 4.4.0, request by request. Cases are text files
// under testdata; each is sent over raw TCP, the answers are decoded by kmsg, and what each broker
// chooses for itself (ids, times, epochs, addresses) is replaced by a symbol. Kafka's answers are kept
// under compat/golden, so that the comparison runs where no Kafka does.
//
//	testdata/*.txt ──script──▶ cases ──run──▶ broker
//	                                    │ answers
//	                                    ▼
//	                 environment: $t, $pid1, $epoch1 …
//	                                    │ transcript
//	         -record ──▶ golden/*.golden ──compare──▶ differences.txt explains, or the test fails
//
// Invariants:
//
//	D1  A case names what it does, never what is right: right is what Kafka answered.
//	D2  Every difference is listed in differences.txt with both values and the reason, and a listed
//	    difference that no longer occurs fails the test.
//	D3  Batches and requests are built here and by kmsg, never by the broker's own code.
//	D4  Cases share a broker and nothing else: each has its own topics, groups and connections.
//
// The words of the case language are listed at verbs, its functions at environment.call.
//
//	go test ./compat/diff                    the built broker against the golden files
//	go test ./compat/diff -record            record the golden files from Kafka (KAFKA_TOOL)
//	go test ./compat/diff -kafka             Kafka against the golden files: are the cases stable?
//	go test ./compat/diff -cases 'produce/'  only the cases that match
//
// A run has a handful of goroutines that take cases from a channel; they end with the run.
package diff
