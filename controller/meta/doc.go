// Package meta is the metadata of the cluster as a pure state machine: topics, settings, brokers,
// producer id blocks, feature levels.
//
//	Command --Execute(Image)--> records + Result       nothing has happened yet
//	               |
//	            the log (package quorum)               now it is durable
//	               |
//	Image --------Apply(records)--> Image              now it has happened
//
// The same Apply serves live commands and replay; Snapshot gives the records that rebuild an image.
// A record is JSON in the shape that Kafka's dump tool prints:
// {"type":...,"version":...,"data":...}.
//
// Invariants:
//
//	M1  An Image never changes. Apply copies what it touches and shares the rest.
//	M2  A command is all or nothing per topic or resource; its Result has one row for each.
//	M3  A record that changes a topic or a broker's settings carries the version that the change
//	    makes; Apply refuses any other, so that a log that lost a record is found out.
//	M4  A topic id is used once. A topic made anew under an old name has another id.
//	M5  A producer id block is given away once (ruling 18).
//	M6  Records from disk never panic: Apply and DecodeRecord give errors marked corrupt, or
//	    ErrNewerRelease for what this release cannot know.
//
// This package starts no goroutine.
package meta
