// Package producer is the idempotence and transaction state of one partition, as a pure machine.
package producer
