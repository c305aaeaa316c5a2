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
// in the middle of a write; a disk that hangs; packets lost, repeated, late and out of order; cuts in one
// direction or both; partitions that are moved; log starts that move.
//
// Invariants, by name in a failure:
//
//	one-leader    a term has one leader
//	committed     what is below a high watermark anywhere never changes, on any broker
//	watermark     a broker's high watermark never goes back while it runs
//	acknowledged  a record whose producer was told so is there, once, in its producer's order
//	heals         without faults all partitions are led, and their replicas equal, within 30 s
//	quiet         without writes no group gets ticks, and a write wakes it
package sim
