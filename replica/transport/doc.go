// Package transport is the wire between brokers: raft messages with their batches, liveness, calls
// and streams of files. A Transport sends; a Handler is what a broker does with what comes in.
//
//	        Send, SendLiveness, Call        OpenStream
//	peer:  control ─ data0 ─ data1 ─────────── bulk        four connections, dialled by who sends
//	          │  votes, acks,   │ MsgApp by       │ streams, throttled
//	          │  liveness,      │ group, batches  │
//	          ▼  calls          ▼ by writev       ▼
//	Handler: Liveness, Call    Raft              Stream
//
// TCP is the transport of a broker, Network the in-memory twin that a simulation steps.
//
// Invariants:
//
//	W1  Nothing of a connection reaches the Handler before both ends have proved to hold the secret, or
//	    certificates of the same authority, for this cluster, these two nodes and this connection. Who
//	    has neither talks on loopback only.
//	W2  Send never blocks and never calls the Handler. What does not fit into a peer's backlog, or can't
//	    be read any more when its turn comes, is dropped and reported by Unreachable.
//	W3  Messages of one group that travel on one connection arrive in the order sent: MsgApp and MsgSnap
//	    on a data connection, everything else on the control connection. Between the two there is no
//	    order, and messages may be lost.
//	W4  Memory follows what is allowed and has arrived: frames are bounded per kind, payloads on data
//	    connections come out of one budget, and what is larger than a piece grows with its bytes. Over
//	    budget the data connections are not read; the control connections always are.
//	W5  A frame's header and body are under a CRC32C. A payload is batches: each has its own CRC, which
//	    the group checks before raft hears of it.
//
//	W6  A peer is up from the handshake of its control connection to that connection's end; its other
//	    connections end with it. A second connection of a kind takes the place of the first, and a later
//	    incarnation ends everything of the earlier one.
//
// Goroutines, all owned by TCP, whose Close stops them and waits: one that accepts; per peer and
// connection one that dials and writes and one that reads answers; per accepted connection one that
// reads, with one per call and stream that it serves; one that reports Unreachable. Timers run on the
// clock's. Network has none.
//
// Lock order: TCP.mu, then link.mu, then the backlog's counters. No lock is held over a call of the
// Handler or a read; inbound.out is held over a write, and nothing is taken under it.
//
// Not here: which messages are sent (replica/group), what a heartbeat says (replica/liveness), what
// methods exist and who may call them: a call from NoNode has proved the secret, not a membership.
//
// The secret proves who speaks when a connection is made. It does not keep who can alter packets on
// the way from altering them: on a network that is not trusted use TLS.
package transport
