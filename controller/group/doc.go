// Package group is the coordinator of consumer groups in the classic protocol, and the keeper of
// committed offsets.
package group
