// Package sim runs whole brokers in one goroutine, in virtual time, on simulated disks and a simulated
// network, with everything that happens drawn from one seed: a seed that fails fails again.
//
//	seed ──► World: clock.Manual, transport.Network, per broker vfs.PowerFS
//	            │  each step: some time, packets, syncs, a client's word, or a fault
//	            ├─ Broker: store, engine, member (liveness); what a process has, stepped by the world
//	            ├─ Client: an idempotent producer per partition that retries what it does not know
//	            └─ Checker: what must hold after every step, and after all is healed
//
// What is real: log/store with its journal, recovery and snapshots, replica/group and engine, liveness,
// the leader table, the wire's codec. What is simulated: time, disks, network, the controller that hands
// out replicas.
//
// Faults: kill -9 (the page cache stays), power loss (any subset of unsynced sectors, renames), both also
// in the middle of a write; a disk that hangs, is full, or fails a sync; packets lost, repeated, late and out
// of order; a broker that all packets to and from are slow with; cuts in one direction or both; clocks that
// run at different rates; partitions of one, three and five replicas that are moved, grow from the solo form
// and return to it; log starts that move, so that who is behind gets files; leads that are handed over.
//
// Invariants, by name in a failure:
//
//	one-leader    a term has one leader
//	committed     what is below a high watermark anywhere never changes, on any broker, to the byte; offsets
//	              there are dense
//	watermark     a broker's high watermark never goes back while it runs
//	acknowledged  a record whose producer was told so is there, once, in its producer's order
//	in-sync       a write for all replicas is taken with min.insync.replicas of them in sync
//	heals         without faults all partitions are led, and their replicas equal, within 30 s
//	quiet         without writes no group gets ticks, and a write wakes it
//
// A seed repeats itself to the last packet (TestSeedRepeats). What it takes: raft's own random numbers come
// from testing/cryptotest, everything else from World.rng; engine and store run on the world's goroutine
// (Options.Manual). Package mutants plants bugs and tells how soon they are found.
//
// Goroutines: those of the stores (janitor, page cache), which have nothing to do here but to end.
package sim
