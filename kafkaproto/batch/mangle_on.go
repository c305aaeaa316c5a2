//go:build invariants

package batch

// mangle tells free to overwrite what it takes back; see mangle_off.go.
const mangle = true
