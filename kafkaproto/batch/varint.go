package batch

// Records use zig-zag varints. A reader takes a position and gives the next one; on a cut or
// overlong number it gives value 0 and position -1, and a position of -1 stays -1, so a caller may
// read several numbers and look at the position once.

// short reads a number of one or two bytes that has another byte behind it; n is 0 if there is none
// such. It is small enough to be inlined, which varint is not.
func short(p []byte, at int) (v int32, n int) {
	if uint(at+2) > uint(len(p)) {
		return 0, 0
	}
	u := uint32(p[at])
	if u >= 0x80 {
		next := uint32(p[at+1])
		if next >= 0x80 {
			return 0, 0
		}
		u = u&0x7f | next<<7
		return int32(u>>1) ^ -int32(u&1), 2
	}
	return int32(u>>1) ^ -int32(u&1), 1
}

// varint reads a number of at most 32 bits in at most five bytes.
func varint(p []byte, at int) (int32, int) {
	if uint(at) < uint(len(p)) && p[at] < 0x80 {
		return int32(p[at]>>1) ^ -int32(p[at]&1), at + 1
	}
	return longVarint(p, at)
}

// longVarint has two bytes as its quick case: lengths from 64 to 8191.
func longVarint(p []byte, at int) (int32, int) {
	if at < 0 {
		return 0, -1
	}
	if at+1 < len(p) && p[at+1] < 0x80 {
		u := uint32(p[at]&0x7f) | uint32(p[at+1])<<7
		return int32(u>>1) ^ -int32(u&1), at + 2
	}
	var u uint32
	for shift := 0; shift < 35 && at < len(p); shift += 7 {
		c := p[at]
		at++
		if shift == 28 && c > 0x0f {
			return 0, -1
		}
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), at
		}
	}
	return 0, -1
}

// varlong reads a number of at most 64 bits in at most ten bytes.
func varlong(p []byte, at int) (int64, int) {
	if uint(at) < uint(len(p)) && p[at] < 0x80 {
		return int64(p[at]>>1) ^ -int64(p[at]&1), at + 1
	}
	return longVarlong(p, at)
}

func longVarlong(p []byte, at int) (int64, int) {
	if at < 0 {
		return 0, -1
	}
	if at+1 < len(p) && p[at+1] < 0x80 {
		u := uint64(p[at]&0x7f) | uint64(p[at+1])<<7
		return int64(u>>1) ^ -int64(u&1), at + 2
	}
	var u uint64
	for shift := 0; shift < 70 && at < len(p); shift += 7 {
		c := p[at]
		at++
		if shift == 63 && c > 0x01 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), at
		}
	}
	return 0, -1
}

func appendVarint(p []byte, v int32) []byte {
	u := uint32(v<<1) ^ uint32(v>>31)
	for u >= 0x80 {
		p = append(p, byte(u)|0x80)
		u >>= 7
	}
	return append(p, byte(u))
}

func appendVarlong(p []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		p = append(p, byte(u)|0x80)
		u >>= 7
	}
	return append(p, byte(u))
}

func sizeVarint(v int32) int { return sizeVarlong(int64(v)) }

func sizeVarlong(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
