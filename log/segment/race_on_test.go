//go:build race

package segment

// The race detector makes every damaged byte ten times as dear; it looks for races, which a part of
// them shows as well.
const damageStride, checkRounds = 13, 1
