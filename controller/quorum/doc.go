// Package quorum keeps the metadata on a log of its own and publishes it as immutable images. This
// is its solo form: one voter, so that what is synced is committed.
//
//	Do, Submit --> queue --> [ loop: Execute on the image, append one batch, wait for the sync ]
//	                                        |
//	   __cluster_metadata-0/          Subscribe callbacks --> Image() --> replies
//	     00000000000000000000.log           |
//	     00000000000000001234-0000000007.checkpoint   snapshot: the image at offset 1234
//
//	data dir   meta.properties          cluster.id, node.id, directory.id, version=1
//
// Each record of the metadata takes one offset, so that an image's version is the log's end.
//
// Invariants:
//
//	Q1  A command is answered, and its image seen, when its records are synced, never earlier.
//	Q2  All records of a command lie in one batch: after a crash there are all or none.
//	Q3  Commands that come while a sync runs share the next one; order is the order of arrival.
//	Q4  Subscribers see every image in order, and before the commands behind it are answered.
//	Q5  The log is kept from the older of two snapshots on, so that one damaged snapshot is survived.
//	Q6  A data directory never changes its cluster id, node id or directory id; another one asked
//	    for is refused before anything is written.
//	Q7  After an append that failed the image is as before; after a sync that failed nothing is
//	    taken any more.
//
// Goroutines: the loop, and while a snapshot is written its writer; both are Controller's, and
// Close waits for them.
package quorum
