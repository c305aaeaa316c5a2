// Package txn is the folder of producers with an identity: producer ids now, transactions when
// they are served.
//
//	pid   producer ids out of durable blocks
//
// This package holds no code and starts no goroutine.
package txn
