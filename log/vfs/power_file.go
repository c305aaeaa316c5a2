package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorSize is the unit that a disk writes whole or not at all.
const sectorSize = 512

// maxForms is how many forms of one sector are kept between two syncs: the first ones and the
// newest.
const maxForms = 4

// writeLog is what happened to a file since its last sync. The node's lock guards it.
type writeLog struct {
	disk  []byte             // what the last sync made durable
	forms map[int64][][]byte // by sector number: what it held after writes since, oldest first
	sizes []int64            // the sizes since, oldest first
	cut   int64              // the smallest size since; disk is not shorter when there was none
}

func newWriteLog(disk []byte) *writeLog {
	return &writeLog{disk: slices.Clone(disk), cut: int64(len(disk))}
}

// wrote records the sectors that [off, end) touches, as they are now.
func (l *writeLog) wrote(data []byte, off, end int64) {
	if l.forms == nil {
		l.forms = make(map[int64][][]byte)
	}
	first := off / sectorSize
	stop := min((end+sectorSize-1)/sectorSize*sectorSize, int64(len(data)))
	image := slices.Clone(data[first*sectorSize : stop])
	for s := first; len(image) > 0; s++ {
		n := min(sectorSize, len(image))
		l.addForm(s, image[:n:n])
		image = image[n:]
	}
	l.addSize(int64(len(data)))
}

func (l *writeLog) addForm(sector int64, form []byte) {
	forms := l.forms[sector]
	if len(forms) == maxForms {
		forms = forms[:maxForms-1]
	}
	l.forms[sector] = append(forms, form)
}

func (l *writeLog) addSize(size int64) {
	if n := len(l.sizes); n > 0 && l.sizes[n-1] == size {
		return
	}
	if len(l.sizes) == 64 {
		l.sizes = append(l.sizes[:32:32], l.sizes[48:]...)
	}
	l.sizes = append(l.sizes, size)
}

// resized records a truncation: the sector that was cut through is written again, with zeros.
func (l *writeLog) resized(data []byte, old int64) {
	size := int64(len(data))
	l.cut = min(l.cut, size)
	if edge := min(size, old); edge%sectorSize != 0 {
		l.wrote(data, edge-1, edge)
	}
	l.addSize(size)
}

// synced moves everything to the disk.
func (l *writeLog) synced(data []byte) {
	l.fit(min(l.cut, int64(len(l.disk)))) // what was cut off since is zero when the file grew again
	l.fit(int64(len(data)))
	for s := range l.forms {
		if at := s * sectorSize; at < int64(len(data)) {
			copy(l.disk[at:min(at+sectorSize, int64(len(l.disk)))], data[at:])
		}
	}
	l.forms, l.sizes, l.cut = nil, nil, int64(len(data))
}

// fit gives the disk image this size.
func (l *writeLog) fit(size int64) {
	if size <= int64(len(l.disk)) {
		l.disk = l.disk[:size]
		return
	}
	l.disk = append(l.disk, make([]byte, size-int64(len(l.disk)))...)
}

// syncFailed moves some sectors to the disk and forgets that the others are not there.
func (l *writeLog) syncFailed(data []byte, random *rand.Rand) {
	kept := draw(random, len(l.forms))
	for i, s := range slices.Sorted(maps.Keys(l.forms)) {
		if !kept(i) {
			delete(l.forms, s)
		}
	}
	l.synced(data)
}

// dropCache reads clean sectors in [off, off+n) again from the disk.
func (l *writeLog) dropCache(data []byte, off, n int64) {
	end := int64(len(data))
	if n > 0 {
		end = min(end, off+n)
	}
	for at := off / sectorSize * sectorSize; at < end; at += sectorSize {
		if l.forms[at/sectorSize] != nil {
			continue
		}
		page := data[at:min(at+sectorSize, int64(len(data)))]
		clear(page)
		if at < int64(len(l.disk)) {
			copy(page, l.disk[at:])
		}
	}
}

// survives is what a power loss leaves of the file.
func (l *writeLog) survives(random *rand.Rand) []byte {
	size := l.sizeAfter(random)
	out := make([]byte, size)
	copy(out, l.disk)
	kept := draw(random, len(l.forms))
	newest := random.IntN(2) == 0
	for i, s := range slices.Sorted(maps.Keys(l.forms)) {
		if !kept(i) || s*sectorSize >= size {
			continue
		}
		forms := l.forms[s]
		form := forms[len(forms)-1]
		if !newest {
			form = forms[random.IntN(len(forms))]
		}
		sector := out[s*sectorSize : min((s+1)*sectorSize, size)]
		clear(sector)
		copy(sector, form)
	}
	return out
}

// sizeAfter draws the file's size: the one on disk, one it had since, or one between those.
func (l *writeLog) sizeAfter(random *rand.Rand) int64 {
	sizes := append([]int64{int64(len(l.disk))}, l.sizes...)
	switch random.IntN(4) {
	case 0:
		return sizes[random.IntN(len(sizes))]
	case 1:
		lo, hi := slices.Min(sizes), slices.Max(sizes)
		return lo + random.Int64N(hi-lo+1)
	default:
		return sizes[len(sizes)-1]
	}
}
