package vfs

// MemFS is a file system in memory.
type MemFS struct{ FS }

// Memory makes an empty file system in memory, with the root directory "/" and the working
// directory ".".
func Memory() *MemFS { panic("todo") }
