// Package quorum keeps the metadata on a log of its own and publishes it as immutable images: alone, or
// on every broker of a cluster. Handlers see no difference: commands go in by Do and Submit, images come
// out by Image and Subscribe.
//
// Alone there is one voter, so that what is synced is committed:
//
//	Do, Submit --> queue --> [ loop: Execute on the image, append one batch, wait for the sync ]
//	                                        |
//	   __cluster_metadata-0/          Subscribe callbacks --> Image() --> replies
//	     00000000000000000000.log           |
//	     00000000000000001234-0000000007.checkpoint   snapshot: the image at offset 1234
//
//	data dir   meta.properties          cluster.id, node.id, directory.id, version=1
//	           quorum.json              of a broker that has peers: whom the log began with
//
// On several brokers the log is a managed group of the engine: 1, 3 or 5 voters, all others learners.
// Every broker applies what is committed; the leader, once Ready and with everything applied, is the
// active controller:
//
//	broker without the lead                      active controller
//	Do --> core.queue --> forward --- Call ----> core.queue --> flight: Execute, one batch
//	          waits for its image <--- answer ---     replies <---   | Append, in its epoch only
//	                  ^        (version, result)          ^          v
//	                  |                                   |     raft: committed
//	   image <-- apply + publish <---- the log, on every broker ----+
//	     ^
//	     +--- MethodImage, a checkpoint as a stream, when the log begins behind the image
//
// Each record of the metadata takes one offset, so that an image's version is the log's end.
//
// Invariants:
//
//	Q1  A command is answered, and its image seen, when its records are synced (committed), never earlier.
//	Q2  All records of a command lie in one batch: after a crash there are all or none.
//	Q3  Commands that come while a sync runs share the next one; order is the order of arrival.
//	Q4  Subscribers see every image in order, and before the commands behind it are answered.
//	Q5  The log is kept from the older of two snapshots on, so that one damaged snapshot is survived.
//	    On several brokers the leader's two count; a broker that lacks what was cut gets an image.
//	Q6  A data directory never changes its cluster id, node id or directory id; another one asked
//	    for is refused before anything is written.
//	Q7  After an append that failed the image is as before; after a sync that failed nothing is
//	    taken any more.
//	Q8  An image is made of the committed log alone. What a leader has worked out counts when its batch,
//	    told by offset and epoch, is applied; another leader's batch at that offset is none of it.
//	Q9  The active controller executes on all there is in the log: its append is refused in any other
//	    epoch than the one in which its image was the log's end. A command that wrote nothing is
//	    answered once the others have confirmed the lead.
//	Q10 A command that was forwarded is answered when this broker's image shows what it did.
//	Q11 A command that may have been carried out is repeated only when that does no harm (idempotent).
//	    Else the answer says that it is not known: NOT_CONTROLLER of the broker that led,
//	    REQUEST_TIMED_OUT of the one that forwarded.
//	Q12 A replica's id derives from the data directory's uuid: a wiped disk is another replica, and
//	    joins as a learner.
//	Q13 Who founds and who joins is decided once and durable before raft starts; no two brokers that keep
//	    their disks decide differently (founding.go).
//	Q14 Who is to vote is said by the active controller, for its term (place.go). The first one registers
//	    all founders in the batch that names the cluster, so that none is taken for gone.
//
// Pure parts: core (what becomes of commands), founding (the founders' agreement), placeReplicas.
//
// Goroutines: the loop, and while a snapshot is written its writer; on several brokers one that registers
// this broker, one per forwarded command (maxAway) and one that fetches an image. All are Controller's,
// and Close waits for them. Founding.Run asks seeds on goroutines of its own and waits for them.
package quorum
