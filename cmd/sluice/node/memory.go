package node

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// The bounds of sluice.page.cache.bytes=-1.
const (
	leastPageCache = 64 << 20
	mostPageCache  = 1 << 30
)

// pageCache is sluice.page.cache.bytes in bytes: -1 means a sixteenth of the memory there is.
func pageCache(configured int64, root fs.FS) int64 {
	if configured >= 0 {
		return configured
	}
	return min(max(memory(root)/16, leastPageCache), mostPageCache)
}

// memory is what the machine has, or what the process's control group may use, in bytes; 0 where
// the system does not tell. root is the root of the file system.
func memory(root fs.FS) int64 {
	total := int64(0)
	info, _ := fs.ReadFile(root, "proc/meminfo") // unreadable: not told
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 32)
			total = kb << 10
		}
	}
	if limit := groupLimit(root); limit > 0 && (total == 0 || limit < total) {
		return limit
	}
	return total
}

// groupLimit is the lowest memory limit of the process's control group and those around it, by
// version 2 of the interface (cgroups(7)) or version 1; 0: none.
func groupLimit(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // unreadable: no groups
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		switch parts[1] {
		case "":
		case "memory":
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the group's own path may not be there: its root is mounted instead.
		for at := path.Join("/", parts[2]); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(base, strings.TrimPrefix(at, "/"), file))
			if err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					limit = min(limit, n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	if limit >= 1<<60 { // version 1 says "none" by a number
		return 0
	}
	return limit
}
