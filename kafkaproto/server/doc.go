// Package server is the network edge of the broker: listeners, connections and frames. It knows
// that a request is a size and that many bytes, and that answers leave in the order the requests
// came in. It knows nothing of Kafka's API keys; a Handler does.
//
//	           accept loop (one per listener)
//	                │ limits, TLS, first bytes looked at
//	                ▼
//	socket ──► reader ──► Handler.Serve ──► parked somewhere, or answered at once
//	             │ frame buffers (pool, budget)         │
//	             │                                      ▼ Reply/NoReply/Fail, any goroutine, any order
//	             └──────► queue in arrival order ◄──────┘
//	                            │ the done prefix
//	                            ▼
//	socket ◄── one writev or sendfile: by the writer, or by the reader when it is about to wait
//
// Invariants:
//
//	N1  Answers leave in the order of their requests, whatever order they were made in.
//	N2  Each request is answered exactly once; a second answer panics. Each Payload.Release runs
//	    exactly once, after its bytes were written or dropped.
//	N3  Memory follows bytes received, not bytes announced: a frame buffer is at most 64 KiB, or
//	    twice what has arrived, or a size that this connection has filled before.
//	N4  Frame buffers of all connections stay within Options.InflightBytes, plus one frame that may
//	    overdraw (so that no two half-read frames wait for each other) and one small frame per
//	    connection (so that small requests always pass).
//	N5  The reader holds back no finished answer while it waits: it flushes before each wait.
//	N6  A peer that neither sends nor takes bytes is closed: idle, stalled frame, stuck write.
//	N7  A stranger costs at most one log line per peer and minute.
//
// Goroutines: Server owns one accept loop per listener. Each connection has a reader, started by
// the accept loop, and a writer, started by the first answer that does not come from the reader;
// the reader owns both ends of the connection's life. Shutdown and Close wait for all of them;
// Shutdown does so on a goroutine of its own that ends with them.
//
// Not here: SASL (a handler's business), API versions, quotas (Request.Mute only carries them out).
package server
