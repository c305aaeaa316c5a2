package vfs

import (
	"bytes"
	"math/rand/v2"
	"path"
	"slices"
)

// Tail is the part of a file that is not synced: a power loss may come while the disk writes any
// byte of [From, End].
type Tail struct {
	Name      string
	From, End int64
}

// Tails lists the files with bytes that are not synced, by name.
func (p *PowerFS) Tails() []Tail {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Tail
	walkFiles(p.fs.root, "/", func(name string, n *node) {
		from, end := n.log.same(n.data), len(n.data)
		if from == max(len(n.data), len(n.log.disk)) {
			return
		}
		for end > from && end <= len(n.log.disk) && n.data[end-1] == n.log.disk[end-1] {
			end--
		}
		out = append(out, Tail{name, int64(from), int64(max(from, end))})
	})
	return out
}

// Torn is what a start finds when the power goes while the disk writes a file's tail: the bytes below
// at are as written, those from there on as the last sync left them. Of all other files and
// directories either everything since their last sync is there (rest) or nothing. It is finer than
// what Crash takes: a disk keeps sectors whole. p goes on. false: the file itself has been made since
// and would be gone.
func (p *PowerFS) Torn(name string, at int64, rest bool) (*PowerFS, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec := &recorder{random: rand.New(rand.NewPCG(uint64(at), 0x7042))}
	t := &tree{}
	t.fs.rec, t.fs.locks = rec, make(map[string]*memLock)
	found := false
	t.fs.root = tornCopy(p.fs.root, "/", rest, func(file string, n *node) []byte {
		switch {
		case file == path.Clean("/"+name):
			found = true
			return n.log.tornAt(n.data, at)
		case rest:
			return slices.Clone(n.data)
		}
		return slices.Clone(n.log.disk)
	})
	return &PowerFS{t}, found
}

// tornCopy copies what is below n: of directories what is there, or what is durable.
func tornCopy(n *node, name string, rest bool, file func(string, *node) []byte) *node {
	if n.children == nil {
		data := file(name, n)
		return &node{data: data, log: newWriteLog(data)}
	}
	entries := n.durable
	if rest {
		entries = n.children
	}
	out := &node{children: make(map[string]*node), durable: make(map[string]*node)}
	for _, base := range sortedNames(entries) {
		c := tornCopy(entries[base], path.Join(name, base), rest, file)
		out.children[base], out.durable[base] = c, c
	}
	return out
}

func walkFiles(n *node, name string, visit func(string, *node)) {
	if n.children == nil {
		visit(name, n)
		return
	}
	for _, base := range sortedNames(n.children) {
		walkFiles(n.children[base], path.Join(name, base), visit)
	}
}

// same is how many bytes at the start are on the disk as they are in data.
func (l *writeLog) same(data []byte) int {
	n := 0
	for n < min(len(data), len(l.disk)) && data[n] == l.disk[n] {
		n++
	}
	return n
}

// tornAt is the file with what was written below at, and the disk's bytes behind.
func (l *writeLog) tornAt(data []byte, at int64) []byte {
	at = min(at, int64(len(data)))
	out := bytes.Clone(data[:at])
	if int64(len(l.disk)) > at {
		out = append(out, l.disk[at:]...)
	}
	return out
}
