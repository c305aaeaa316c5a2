package vfs

// Op is a kind of file system call, as a bit, so that a rule may name several.
type Op uint32

// The kinds of calls that a Rule can name.
const (
	OpOpen   Op = 1 << iota // OpenFile without O_CREATE
	OpCreate                // OpenFile with O_CREATE
	OpRead
	OpWrite
	OpTruncate
	OpSync
	OpSyncDir
	OpSyncFS
	OpRename
	OpRemove // Remove and RemoveAll
	OpMkdir
	OpReadDir
	OpAny Op = 1<<iota - 1
)

// Rule says which calls fail, and how.
type Rule struct {
	Op Op
	// Glob is matched (path.Match) against the base name of the file; "" matches all.
	Glob string
	// Nth is the first matching call that fails, counted from 1; 0 means 1.
	Nth int
	// Times is how many calls fail from the Nth on; 0 means 1, negative means all.
	Times int
	// Err is what they return; nil means EIO.
	Err error
	// Short is, for OpWrite, how many bytes are written all the same before the error.
	Short int
}

// ErrFS is a file system with faults.
type ErrFS struct{ FS }

// Inject puts faults into a file system.
func Inject(under FS, rules ...Rule) *ErrFS { panic("todo") }

// Add adds a rule; its count begins now.
func (e *ErrFS) Add(r Rule) { panic("todo") }

// Clear removes all rules and the byte budget.
func (e *ErrFS) Clear() { panic("todo") }

// SetBudget lets files grow by n more bytes in all; after that writes are cut short and fail with
// ENOSPC. Shrinking and removing give back.
func (e *ErrFS) SetBudget(n int64) { panic("todo") }

// Hook is called before every call, outside of locks; an error makes the call fail with it.
func (e *ErrFS) Hook(fn func(op Op, name string) error) { panic("todo") }
