// Package batch is Kafka's record batch, format 2 ("magic 2"): read in place, checked, patched,
// built. A batch travels socket -> buffer -> file -> socket as the client made it; this package is
// what looks into it on the way.
//
//	request bytes --Admit--> Batch --SetBaseOffset, SetLeaderEpoch--> log --First, Scan--> Batch
//	                                                                            |
//	records --Builder, Control--> Batch                  Record <--Each---------+
//
//	 0           8        12            16      17    21                        57      61
//	 | base      | length | leader      | magic | CRC | attributes ... sequence | count | records
//	 | offset  8 |      4 | epoch     4 |     1 |   4 |                      36 |     4 | (codec)
//	 +----------- outside the CRC ------------+       +----------- under the CRC ------- ...
//
// Files: batch.go header.go (the view), varint.go record.go (records), codec.go expand.go shrink.go
// buffer.go (compression), build.go control.go (making), admit.go timestamp.go (the rules of a
// Produce request).
//
// Invariants:
//
//	B1  A Batch is whole: First and Admit prove that its length field is its length, so getters
//	    need no error. Its capacity ends with it.
//	B2  Base offset and leader epoch lie outside the CRC; every other change computes it anew.
//	B3  What walk accepts, Each reads, and the other way round: an uncompressed batch that was
//	    admitted can be decoded for ever. (Compressed ones: see below.)
//	B4  Decompression writes no more than the bound it was given, and holds no more memory than a
//	    small multiple of what the input proves and one block of the codec (4 MiB at most),
//	    whatever sizes it announces.
//	B5  Admit of an uncompressed batch allocates nothing. A batch it refuses is left as it was.
//	B6  Each and Marker call wrong bytes corrupt only if the CRC is wrong too; otherwise a client
//	    sent them, and they are ErrMalformed: no reason to take a partition offline.
//	B7  Freed buffers are overwritten with -tags invariants: a record kept beyond its callback
//	    shows.
//
// # Where Admit differs from Kafka, on purpose
//
// Kafka decompresses every batch it is sent. That costs 20 to 75 % of the broker's work, and finds
// something only in batches of broken clients, so Admit decompresses only when a rule can not be
// kept without:
//
//   - the topic is compacted: each record needs a key;
//   - compression.type asks for another codec than the batch has;
//   - message.timestamp.before.max.ms is finite: the header does not hold the smallest timestamp;
//   - the largest timestamp in the header is smaller than the base timestamp, as from clients that
//     do not fill it in.
//
// In all other compressed batches the header is trusted for count, offsets and largest timestamp:
// message.timestamp.after.max.ms is held against the header's largest timestamp, and a payload that
// can not be decoded is stored as sent. The CRC and the header's own rules are always checked.
// Readers of stored batches must therefore expect ErrMalformed (B6).
//
// Uncompressed batches are walked to the last byte, since that is cheap. Like Kafka, Admit stores
// their offset deltas as they are, even out of order; a negative delta is refused. Where it opens a
// compressed batch it refuses gaps.
//
// Where Kafka answers UNKNOWN_SERVER_ERROR (codecs 5 to 7, payloads that are not what the codec
// makes, gaps in compressed batches) Admit answers INVALID_RECORD, which no client retries. A
// payload that decompresses beyond Check.MaxExpanded is MESSAGE_TOO_LARGE, upon which Java's
// producer splits the batch. At most 1000 records of a batch are named as failed.
//
// This package starts no goroutine. Its pools hold decoders, encoders and buffers between calls;
// everything is safe for concurrent use except one Batch being patched and one Builder.
package batch
