// Package crash kills a real broker under load and proves from the clients' histories that nothing
// acknowledged was lost, doubled, moved or reordered.
//
//	producers ──acks──▶ History ──Check──▶ faults
//	   ▲                   ▲
//	broker ◀─kill -9─ test │ the whole log, read at the end
//
// Invariants that Check holds a history against (reliability goals of strict mode):
//
//	H1  An acknowledged record is at the offset it was acknowledged at.
//	H2  No record is in the log twice.
//	H3  Of one producer in one partition, records stand in the order they were sent.
//	H4  Offsets of a partition are dense.
//	H5  A committed offset of a group never goes back behind what was acknowledged.
//
// Each producer and the offset committer have one goroutine, which the test stops and waits for.
package crash
