package meta

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTreeModel compares the tree with a map, and old versions of it with what they were.
func TestTreeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			tree  tree[int, int]
			model map[int]int
		}
		versions := []version{{newTree[int, int](), map[int]int{}}}
		for step := range rapid.IntRange(0, 60).Draw(t, "steps") {
			last := versions[len(versions)-1]
			key := rapid.IntRange(0, 20).Draw(t, "key")
			next := version{last.tree, maps.Clone(last.model)}
			if rapid.Bool().Draw(t, "set") {
				next.tree = last.tree.Set(key, step)
				next.model[key] = step
			} else {
				next.tree = last.tree.Delete(key)
				delete(next.model, key)
			}
			versions = append(versions, next)
		}
		for _, v := range versions {
			keys := slices.Sorted(maps.Keys(v.model))
			var want []int
			for _, k := range keys {
				want = append(want, v.model[k])
				if got, ok := v.tree.Get(k); !ok || got != v.model[k] {
					t.Fatalf("key %d is %d, %v, want %d", k, got, ok, v.model[k])
				}
			}
			if got := slices.Collect(v.tree.All()); !slices.Equal(got, want) || v.tree.Len() != len(want) {
				t.Fatalf("values %v (%d), want %v", got, v.tree.Len(), want)
			}
			checkShape(t, v.tree.root)
		}
		a := rapid.SampledFrom(versions).Draw(t, "a")
		b := rapid.SampledFrom(versions).Draw(t, "b")
		patched := maps.Clone(a.model)
		byValue := func(v int) int { // values are unique steps, except for 0
			for k, x := range a.model {
				if x == v {
					return k
				}
			}
			return -1
		}
		a.tree.diff(b.tree, func(old, new *int) {
			if old != nil {
				delete(patched, byValue(*old))
			}
			if new != nil {
				for k, x := range b.model {
					if x == *new {
						patched[k] = x
					}
				}
			}
		})
		if !maps.Equal(patched, b.model) {
			t.Fatalf("diff of %v and %v patches to %v", a.model, b.model, patched)
		}
		a.tree.diff(a.tree, func(old, new *int) { t.Fatal("a tree differs from itself") })
	})
}

func checkShape(t *rapid.T, n *treeNode[int, int]) {
	if n == nil {
		return
	}
	for _, c := range []*treeNode[int, int]{n.left, n.right} {
		if c != nil && c.priority > n.priority {
			t.Fatal("the heap is out of order")
		}
		checkShape(t, c)
	}
	if n.size != n.left.count()+1+n.right.count() {
		t.Fatalf("size %d", n.size)
	}
}

// TestTreeSharing: a change in a large tree copies a path, and diff walks little more.
func TestTreeSharing(t *testing.T) {
	big := newTree[int, int]()
	for k := range 10_000 {
		big = big.Set(k, k)
	}
	next := big.Set(5000, -1).Delete(77)
	nodes := map[*treeNode[int, int]]bool{}
	var walk func(n *treeNode[int, int])
	walk = func(n *treeNode[int, int]) {
		if n != nil {
			nodes[n] = true
			walk(n.left)
			walk(n.right)
		}
	}
	walk(big.root)
	fresh := 0
	var count func(n *treeNode[int, int])
	count = func(n *treeNode[int, int]) {
		if n != nil && !nodes[n] {
			fresh++
			count(n.left)
			count(n.right)
		}
	}
	count(next.root)
	if fresh > 200 {
		t.Errorf("two changes copied %d of 10000 nodes", fresh)
	}
	var changes [][2]*int
	big.diff(next, func(old, new *int) { changes = append(changes, [2]*int{old, new}) })
	differing := 0
	for _, c := range changes {
		if c[0] == nil || c[1] == nil || *c[0] != *c[1] {
			differing++
		}
	}
	if differing != 2 || len(changes) > 200 {
		t.Errorf("%d differences in %d nodes looked at", differing, len(changes))
	}
}
