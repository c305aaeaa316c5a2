// Package node assembles a broker from its parts and starts and stops them in order.
//
//	data directory ► store ► engine ► controller (image) ► partitions ► groups, ids ► API ► server
//
// The HTTP listener is there from before the data directory is opened to after it is closed, and
// tells how far the broker is.
//
// Stopping goes the other way round: groups answer who waits, the server lets answers out, waits
// are failed, the controller and then the store write what they must.
//
// Invariants:
//
//	N1  A topic of an image is open in the engine before the image is published to the handlers,
//	    and before the command that made it is answered.
//	N2  Files of a partition go only after the image that lacks its topic id is durable.
//	N3  Stop is bounded by its context; what is left then is what recovery is for.
//
// Goroutines: those of the parts; Node.Stop stops and waits for all of them.
package node
