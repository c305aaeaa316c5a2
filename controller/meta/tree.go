package meta

import (
	"cmp"
	"hash/maphash"
	"iter"
)

// tree is an immutable ordered map: a treap whose priorities are hashes of the keys, so that the
// same keys always make the same shape. Set and Delete copy the path to the key and share the
// rest; two trees that share much are compared quickly (diff).
type tree[K comparable, V any] struct {
	root    *treeNode[K, V]
	compare func(a, b K) int
}

type treeNode[K comparable, V any] struct {
	key         K
	value       V
	priority    uint64
	size        int
	left, right *treeNode[K, V]
}

// treeSeed keeps strangers from choosing names that make a tree a list.
var treeSeed = maphash.MakeSeed()

func newTree[K cmp.Ordered, V any]() tree[K, V] { return tree[K, V]{compare: cmp.Compare[K]} }

func (n *treeNode[K, V]) count() int {
	if n == nil {
		return 0
	}
	return n.size
}

// with gives a copy of n with other children.
func (n *treeNode[K, V]) with(left, right *treeNode[K, V]) *treeNode[K, V] {
	return &treeNode[K, V]{
		key: n.key, value: n.value, priority: n.priority,
		size: left.count() + 1 + right.count(), left: left, right: right,
	}
}

// Len is the number of keys.
func (t tree[K, V]) Len() int { return t.root.count() }

// Get finds a key.
func (t tree[K, V]) Get(key K) (value V, ok bool) {
	for n := t.root; n != nil; {
		switch c := t.compare(key, n.key); {
		case c == 0:
			return n.value, true
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	return value, false
}

// Set gives a tree that has key with value.
func (t tree[K, V]) Set(key K, value V) tree[K, V] {
	leaf := &treeNode[K, V]{
		key: key, value: value, priority: maphash.Comparable(treeSeed, key), size: 1,
	}
	t.root = t.set(t.root, leaf)
	return t
}

func (t tree[K, V]) set(n, leaf *treeNode[K, V]) *treeNode[K, V] {
	if n == nil {
		return leaf
	}
	c := t.compare(leaf.key, n.key)
	if c == 0 {
		return leaf.with(n.left, n.right)
	}
	if leaf.priority > n.priority || (leaf.priority == n.priority && c < 0) {
		left, _, right := t.split(n, leaf.key)
		return leaf.with(left, right)
	}
	if c < 0 {
		return n.with(t.set(n.left, leaf), n.right)
	}
	return n.with(n.left, t.set(n.right, leaf))
}

// split gives what is below key, the node of key itself if it is there, and what is above.
func (t tree[K, V]) split(n *treeNode[K, V], key K) (left, at, right *treeNode[K, V]) {
	if n == nil {
		return nil, nil, nil
	}
	switch c := t.compare(key, n.key); {
	case c == 0:
		return n.left, n, n.right
	case c < 0:
		left, at, right = t.split(n.left, key)
		return left, at, n.with(right, n.right)
	default:
		left, at, right = t.split(n.right, key)
		return n.with(n.left, left), at, right
	}
}

// Delete gives a tree without key.
func (t tree[K, V]) Delete(key K) tree[K, V] {
	if _, ok := t.Get(key); ok {
		t.root = t.without(t.root, key)
	}
	return t
}

func (t tree[K, V]) without(n *treeNode[K, V], key K) *treeNode[K, V] {
	switch c := t.compare(key, n.key); {
	case c == 0:
		return t.merge(n.left, n.right)
	case c < 0:
		return n.with(t.without(n.left, key), n.right)
	default:
		return n.with(n.left, t.without(n.right, key))
	}
}

func (t tree[K, V]) merge(a, b *treeNode[K, V]) *treeNode[K, V] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority || (a.priority == b.priority && t.compare(a.key, b.key) < 0):
		return a.with(a.left, t.merge(a.right, b))
	default:
		return b.with(t.merge(a, b.left), b.right)
	}
}

// All goes over the values in the order of their keys.
func (t tree[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) { t.root.walk(yield) }
}

func (n *treeNode[K, V]) walk(yield func(V) bool) bool {
	return n == nil || (n.left.walk(yield) && yield(n.value) && n.right.walk(yield))
}

// diff calls differs for each key whose node is not the same in both trees, in the order of the
// keys; a nil pointer means that the key is missing on that side.
func (t tree[K, V]) diff(other tree[K, V], differs func(old, new *V)) {
	t.diffNodes(t.root, other.root, differs)
}

func (t tree[K, V]) diffNodes(a, b *treeNode[K, V], differs func(old, new *V)) {
	if a == b {
		return
	}
	if a == nil {
		t.diffNodes(a, b.left, differs)
		differs(nil, &b.value)
		t.diffNodes(a, b.right, differs)
		return
	}
	var left, at, right *treeNode[K, V]
	if b != nil && b.key == a.key {
		left, at, right = b.left, b, b.right
	} else {
		left, at, right = t.split(b, a.key)
	}
	t.diffNodes(a.left, left, differs)
	if at == nil {
		differs(&a.value, nil)
	} else if at != a {
		differs(&a.value, &at.value)
	}
	t.diffNodes(a.right, right, differs)
}
