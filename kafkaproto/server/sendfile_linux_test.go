package server

import (
	"bytes"
	"testing"
)

// TestSkip checks the bookkeeping of partial writes.
func TestSkip(t *testing.T) {
	for n := range 7 {
		iov := [][]byte{[]byte("ab"), []byte("c"), []byte("def")}
		if got := string(bytes.Join(skip(iov, n), nil)); got != "abcdef"[n:] {
			t.Fatalf("after %d bytes %q is left, want %q", n, got, "abcdef"[n:])
		}
	}
}
