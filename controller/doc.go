// Package controller is the folder of who owns what: the metadata of the cluster, its
// configuration, and the coordinators that keep their state in internal topics.
//
//	config   one registry of configuration keys; layers, sources, typed views        (pure)
//	meta     records, Image, commands, one Apply: the metadata state machine          (pure)
//	quorum   meta on its own log, durable before an answer; publishes Images
//	coord    one shard = one pure machine over one partition of an internal topic
//	group    consumer groups on coord
//
// Imports go left only: config <- meta <- quorum <- coord <- group.
//
// This package holds no code and starts no goroutine.
package controller
