package vfs

// CrashKind is what happened.
type CrashKind uint8

// The kinds of crashes.
const (
	// KillCrash ends the process: everything written is still there, and still not synced.
	KillCrash CrashKind = iota
	// PowerCrash keeps what was synced, and of the rest any subset.
	PowerCrash
)

// PowerFS is a file system in memory that knows what a crash may take away.
type PowerFS struct{ FS }

// PowerLoss makes an empty one; seed decides what crashes take.
func PowerLoss(seed uint64) *PowerFS { panic("todo") }

// Crash ends every use of p, and of files opened in it, with ErrCrashed, and gives the file system
// that the next start finds.
func (p *PowerFS) Crash(kind CrashKind) *PowerFS { panic("todo") }
