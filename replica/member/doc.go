// Package member joins a broker to its peers: it drives liveness, feeds the engine what comes over the
// transport, and knows who leads which partition.
//
//	transport ──► Member (transport.Handler) ──► engine: messages, files
//	                 │   ▲                          │ OnLeadership
//	                 ▼   │                          ▼
//	          liveness.Machine ◄──────────── led partitions, probe of the disk
//	                 │
//	                 ├─► beats to peers             Leader, InSync, Up, Admitted: what Metadata shows
//	                 └─► engine: BrokerUp, BrokerDown, Campaign, Wake
//
// Invariants:
//
//	B1  The machine is asked and its output handed on under one lock, so that peers and the engine hear
//	    of things in the order in which they happened. Nothing that is called under it calls back.
//	B2  A disk that hangs is found out by a probe of its own: a small file that is written and synced.
//	    Its goroutine may hang with the disk; the beats go on and say so.
//
// Goroutines: the probe; its timers are the clock's. Close stops both.
package member
