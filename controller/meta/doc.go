// Package meta is the metadata of the cluster as a pure state machine: topics, which brokers keep
// their partitions and shall keep them, settings, brokers, producer id blocks, feature levels.
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
//	M3  A record that changes a topic, a partition's replicas, a broker or its settings carries the
//	    version that the change makes; Apply refuses any other, so that a log that lost a record is
//	    found out. Commands can name the version they were made for: two administrators, or a leader
//	    that is late, cannot undo each other.
//	M4  A topic id is used once. A topic made anew under an old name has another id.
//	M5  A producer id block is given away once (ruling 18).
//	M6  Records from disk never panic: Apply and DecodeRecord give errors marked corrupt, or
//	    ErrNewerRelease for what this release cannot know.
//	M7  A replica's id is used once in its partition. It leaves the partition only when the leader
//	    said that it left the raft group: a broker that deletes the replicas it has lost here takes
//	    no voter from a group.
//	M8  A broker's number belongs to one data directory, and to no other while a replica stands on it.
//
// Who leads a partition, and who votes in the metadata's own raft group, is not in here.
//
// This package starts no goroutine.
package meta
