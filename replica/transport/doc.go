// Package transport carries raft's messages between brokers, with the batches that they speak of.
package transport
