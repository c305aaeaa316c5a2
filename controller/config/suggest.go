package config

import "strings"

// nearest gives the known broker or topic key that is closest to name in spelling; "" when none is
// close.
func nearest(name string) string {
	best, bestDistance := "", 1+len(name)/4
	for _, table := range [][]Key{brokerKeys, topicKeys} {
		for i := range table {
			k := &table[i]
			if k.Hidden {
				continue
			}
			if d := distance(name, k.Name, bestDistance); d <= bestDistance &&
				(best == "" || d < bestDistance) {
				best, bestDistance = k.Name, d
			}
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours between a and b;
// above limit it may give any number above limit.
func distance(a, b string, limit int) int {
	a, b = fold(a), fold(b)
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = above, row, before
	}
	return rows[1][len(b)]
}

// fold makes the ways of writing a key alike: case, and '_' or '-' for '.'.
func fold(s string) string {
	return strings.NewReplacer("_", ".", "-", ".").Replace(strings.ToLower(s))
}
