package vfs

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
)

// ErrCrashed is what calls get that a crashed process would still make.
var ErrCrashed = errors.New("the process has crashed")

// CrashKind is what happened.
type CrashKind uint8

// The kinds of crashes.
const (
	// KillCrash ends the process: everything written is still there, and still not synced.
	KillCrash CrashKind = iota
	// PowerCrash keeps what was synced, and of the rest any subset.
	PowerCrash
)

// PowerFS is a file system in memory that knows what a crash may take away. A power loss keeps
//
//   - of each file: what Sync or SyncFS covered; each 512-byte sector written since, in one of the
//     forms it had since, or not at all; and one of the sizes it had since, or one between them.
//     What is inside the size and was not kept is zero.
//   - of each directory: what SyncDir or SyncFS covered; each entry made, renamed or removed since,
//     or not. Changes of one name are lost from some point on, not out of order.
//
// That is more than a journaling file system takes away, where directory changes are lost from one
// point on for all names.
type PowerFS struct{ *tree }

// PowerLoss makes an empty one; seed decides what crashes take.
func PowerLoss(seed uint64) *PowerFS {
	return &PowerFS{newTree(&recorder{random: rand.New(rand.NewPCG(seed, 0x5105))})}
}

// FailSync lets the next n calls of Sync or SyncFS fail with EIO, as Linux does it: the pages count
// as clean afterwards although some never reached the disk. Reads still show them, until
// DropCache or a crash.
func (p *PowerFS) FailSync(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fs.rec.failSyncs = n
}

// Crash ends every use of p, and of files opened in it, with ErrCrashed, and gives the file system
// that the next start finds.
func (p *PowerFS) Crash(kind CrashKind) *PowerFS {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &tree{}
	t.fs.rec, t.fs.locks = p.fs.rec, make(map[string]*memLock)
	t.fs.root = p.fs.root
	if kind == PowerCrash {
		t.fs.rec.loseEntries()
		t.fs.root = t.fs.rec.survivors(t.fs.root)
	}
	p.fs.dead, p.fs.root = true, nil
	return &PowerFS{t}
}

// entryOp is one change of directory entries that is not synced. Without src it makes an entry,
// without dst it removes one, with both it renames.
type entryOp struct {
	src, dst *node
	from, to string
	node     *node
}

func (o entryOp) apply() {
	if o.src != nil && o.src.durable[o.from] == o.node {
		delete(o.src.durable, o.from)
	}
	if o.dst != nil {
		o.dst.durable[o.to] = o.node
	}
}

// recorder keeps the changes of entries in order. The tree's lock guards it, but for the random
// numbers and failSyncs, which file handles use with the tree's lock held shared.
type recorder struct {
	ops []entryOp

	mu        sync.Mutex
	random    *rand.Rand
	failSyncs int
}

func (r *recorder) add(o entryOp) { r.ops = append(r.ops, o) }

// syncDir makes durable what touches the directory.
func (r *recorder) syncDir(dir *node) {
	keep := r.ops[:0]
	for _, o := range r.ops {
		if o.src == dir || o.dst == dir {
			o.apply()
		} else {
			keep = append(keep, o)
		}
	}
	clear(r.ops[len(keep):])
	r.ops = keep
}

// syncAll makes everything durable.
func (r *recorder) syncAll(root *node) error {
	for _, o := range r.ops {
		o.apply()
	}
	r.ops = nil
	return r.syncFiles(root)
}

func (r *recorder) syncFiles(n *node) error {
	if n.children == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		return r.syncFile(n)
	}
	var first error
	for _, name := range sortedNames(n.children) {
		if err := r.syncFiles(n.children[name]); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// syncFile makes a file durable; the caller holds its lock.
func (r *recorder) syncFile(n *node) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failSyncs > 0 {
		r.failSyncs--
		n.log.syncFailed(n.data, r.random)
		return syscall.EIO
	}
	n.log.synced(n.data)
	return nil
}

// fate is how much of a list of changes survives.
type fate uint8

const (
	none fate = iota
	all
	prefix
	each
	fates
)

// draw gives a function that says for change i of n whether it survives.
func draw(random *rand.Rand, n int) func(i int) bool {
	cut := 0
	switch fate(random.IntN(int(fates))) {
	case none:
	case all:
		cut = n
	case prefix:
		cut = random.IntN(n + 1)
	case each:
		return func(int) bool { return random.IntN(2) == 0 }
	}
	return func(i int) bool { return i < cut }
}

// loseEntries applies those changes of entries that survive.
func (r *recorder) loseEntries() {
	type key struct {
		dir  *node
		name string
	}
	lost := make(map[key]bool)
	keep := draw(r.random, len(r.ops))
	for i, o := range r.ops {
		from, to := key{o.src, o.from}, key{o.dst, o.to}
		if !keep(i) || lost[from] || lost[to] {
			lost[from] = lost[from] || o.src != nil
			lost[to] = lost[to] || o.dst != nil
			continue
		}
		o.apply()
	}
	r.ops = nil
}

// survivors copies what the disk holds below n.
func (r *recorder) survivors(n *node) *node {
	if n.children == nil {
		data := n.log.survives(r.random)
		return &node{data: data, log: newWriteLog(data)}
	}
	out := &node{children: make(map[string]*node), durable: make(map[string]*node)}
	for _, name := range sortedNames(n.durable) {
		c := r.survivors(n.durable[name])
		out.children[name], out.durable[name] = c, c
	}
	return out
}
