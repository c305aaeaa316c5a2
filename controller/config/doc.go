// Package config is the one registry of configuration keys, and the layers their values come from.
//
//	topic override        DescribeConfigs source 1   (metadata log)
//	  broker, dynamic                            2   (metadata log)
//	  cluster default, dynamic                   3   (metadata log)
//	  --override, environment, file              4   (Static)
//	  default of the registry                    5
//
// A topic key takes its value from its override, else from its broker keys (Aliases) in their
// order, layer by layer: retention.ms <- log.retention.ms, .minutes, .hours.
//
// The registry feeds parsing, DescribeConfigs, the checks of CreateTopics and AlterConfigs, and the
// typed views that the rest of the broker reads. Names, types, ranges and defaults are those of
// Kafka 4.4; testdata holds what its own ConfigDef says, and a test compares row by row.
//
// Invariants:
//
//	C1  A value is checked before it enters a layer, so that a typed view cannot fail.
//	C2  Layers never change; a change of a dynamic setting makes new ones (Resolver swaps them).
//	C3  What Describe gives, Alter takes back: values are shown and kept in canonical spelling.
//	C4  Nothing relaxes durability but sluice.durability=relaxed (ruling 12).
//	C5  A sensitive value is never shown, and an unknown key counts as sensitive.
//
// This package starts no goroutine.
package config
