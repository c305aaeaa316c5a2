// Package meta is the metadata of the cluster as a pure state machine.
package meta
