//go:build !race

package segment

const damageStride, checkRounds = 1, 10
