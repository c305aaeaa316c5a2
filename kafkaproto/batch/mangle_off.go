//go:build !invariants

package batch

// mangle tells free to overwrite what it takes back, so that a reader that kept a record too long
// sees it at once. Build with -tags invariants to turn it on.
const mangle = false
