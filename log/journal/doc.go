// Package journal is the per-broker MetaWAL: votes, terms, no-ops, configuration changes,
// truncations, windows, synced marks and swaps of all groups of a data directory.
package journal
