// Package api serves Kafka's requests: one row in table.go and one handler file NN_name.go per
// API. A request comes from kafkaproto/server as a frame and leaves as one payload.
//
//	server.Conn ──► dispatch.go ──► NN_name.go ──► replica/engine, controller/…, txn/…
//	                    │                 │
//	               table.go row      Request.Respond ──► server.Conn (answers in order)
//
// Invariants:
//
//	A1  Every API is one row of the table and one file; ApiVersions, metric labels and
//	    docs/compatibility.md come from the row. What has no row is not advertised (GAPS.md).
//	A2  A handler answers exactly once: Respond, Nothing, or Close.
//	A3  A handler runs on its connection's reader and does not wait: what must wait (commit,
//	    new records, group members) is parked with a deadline and answered by who wakes it.
//	A4  Nothing keeps a request's memory after its answer, unless it was copied.
//
// Goroutines: a parked fetch that is woken is evaluated on a goroutine that Broker starts and
// Broker.Close waits for.
package api
