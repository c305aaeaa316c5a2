// Package store keeps all logs of one data directory: it opens and recovers them, appends and
// reads, makes them durable in groups, deletes what is too old and compacts.
//
//	Append --> segment file --> end offset            (under the log's lock)
//	               |
//	           committer: one sync for every log that was written to meanwhile
//	               |
//	           synced offset --> Event{Synced} --> the engine's high watermark
//	                                                   |
//	           producer state, aborted lists  <-- Commit
//
//	data dir   LOCK                       held while the broker runs
//	           sluice.format              "version: 1": the layout of the directory
//	           journal/                   log/journal
//	           cleaner-offset-checkpoint  Kafka's: how far logs are cleaned
//	           orders-0/                  log/FORMAT.md, and of ours:
//	             <end>.producers          producer state at log end <end>; <end>.snapshot is Kafka's
//	             <base>.<pos>.cut         bytes that a recovery has cut off, for a human to look at
//	             leader-epoch-checkpoint.window  the epochs below raft's window, only replaced durably
//	             *.swap                   a snapshot that is being staged
//
// Invariants:
//
//	S1  Offsets of a log are dense at append: a batch begins where the one before it ended.
//	S2  A failed write leaves nothing: file, indexes, producer state and offsets are as before.
//	S3  The synced offset never passes bytes that a sync has not covered.
//	S4  Bytes below the synced mark are never cut. Damage there takes the log offline, and only it;
//	    so do files, or a directory, that are missing (missing.go, absent.go).
//	S5  The log start only moves up, and is durable before it is seen.
//	S6  What the journal says of a log (no-op, window, swap) is durable before the bytes that
//	    depend on it are written, renamed or removed.
//	S7  Reading never takes the lock of the writer.
//	S8  A sync that failed is never tried again: the whole directory stops (rulings 5, 6).
//	S9  Each batch has one raft index, counted from the journal's window over side entries and
//	    batches; below the window, where compaction has been, there are none.
//	S10 From every offset in [start, end) a reader can advance to the end: compaction keeps the
//	    last record in front of what it may not touch, and no empty batches.
//
// Lock order: Store.mu, Log.dirMu, Log.mu, Log.prod, the segments' own. Observers are called with
// none of them. StartSolo alone holds the mu of several logs, in the order of their names.
//
// Goroutines, each started by Open and ended by Close: the committer (syncs, events), the janitor
// (sealing, retention, removal, background syncs, free space), pages (what stays in the page cache),
// the cleaner and the scrubber when they are enabled. Timers are the clock's, and only wake these.
//
// # For the engine
//
// A log is in its solo form (one voter, StartSolo, Append, DeleteRecords) or in its replicated form, where
// raft says what is written. The form is not on disk but for the configuration: a log that has one starts
// no term by itself. All calls of one log come from whoever holds the group's lock; events come from the
// committer, without it. The test of RawNode (rawnode_test.go) is an engine in 400 lines.
//
// To begin, on every replica:
//
//	OpenLog, Observe             before anything else
//	StartReplica(conf)           conf is what the group had before its first entry; one on disk wins.
//	                             From the solo form: it syncs, and all of the log is committed.
//	raft.NewRawNode              Storage: RaftStorage(), Applied: RaftStorage().Applied(),
//	                             AsyncStorageWrites and DisableProposalForwarding set
//	Campaign                     a single voter wins at once; its no-op is the first entry of the new term
//
// The leader, for each batch:
//
//	Reserve(term, batch)         producer state asked, offset and epoch patched; nothing is written
//	Step(MsgProp, descriptor)    DescribeBatch(b).Append(nil); dropped: Unreserve(base)
//	                             (a log start: LogStartProposal(start), with start <= high watermark)
//
// Everybody, for each Ready, in the order of its messages:
//
//	MsgStorageAppend             1 Snapshot: InstallSnapshot(snapshot, staging)
//	                             2 Entries: EntryOf each, add the payload, AppendEntries
//	                             3 Term or Vote changed: SaveHardState
//	                             Responses wait for the ticket of the last of these calls, in order, also
//	                             when this message wrote nothing.
//	Event{Synced, Ticket}        what waits for tickets up to it may go: to peers, or back into Step
//	MsgStorageApply              configuration changes: ApplyConfChange, SaveConf(index, conf);
//	                             then CommitEntries(last index, high watermark), then the responses
//	MsgApp to a peer             behind the write: the payload by ReadEntries(d.Base, ..., d.Next()), held
//	                             against the descriptor (base, size, epoch); not the same: drop the message
//
// Read refuses what lies below the log start, ReadEntries does not: raft's window may reach below it.
//
// A peer behind the window, where raft makes a MsgSnap:
//
//	leader    x := Export()                  replaces the message's snapshot with x.Snapshot, and ships
//	          x.Manifest, x.ReadAt           x.Manifest.Append and the bytes of its segments
//	          x.Close, ReportSnapshot        nothing of the log is deleted or cleaned before Close
//	follower  s := Stage(ParseManifest(..))  beside the log, which goes on
//	          s.Write(i, bytes), s.Finish    every batch is checked; all is synced
//	          Step(MsgSnap)                  only now; raft may have no use for it: s.Discard
//	          InstallSnapshot                at its MsgStorageAppend, never before Step: raft takes a log
//	                                         that has the entry for one that needs no snapshot
//
// Back to the solo form: StopReplica, once this replica is the only one, and then StartSolo.
//
// What raft may surprise with: an empty entry in the middle of a term, in the place of a configuration
// change that it refused (it is written as a log start of 0); a commit index that falls back on restart,
// by as much as was not hinted (a configuration proves its own index); Snapshot being unavailable while a
// committed configuration change waits for SaveConf. Errors of AppendEntries leave the entries in front of
// the one that failed written, and the call may be repeated as it is. A panic that names a committed entry
// means that two replicas disagree: the process must stop.
//
// Not here: when something is committed (replica/engine), what a config key means
// (controller/config), the bytes of a segment or of the journal (their packages).
package store
