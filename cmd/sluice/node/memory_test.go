package node

import (
	"testing"
	"testing/fstest"
)

func TestPageCacheFollowsTheMemoryThereIs(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	const info = "MemTotal:       16777216 kB\nMemFree:  1 kB\n" // 16 GiB
	for name, c := range map[string]struct {
		set  int64
		root fstest.MapFS
		want int64
	}{
		"set":           {5 << 20, files("proc/meminfo", info), 5 << 20},
		"kernel's":      {0, files("proc/meminfo", info), 0},
		"machine":       {-1, files("proc/meminfo", info), 1 << 30},
		"at most":       {-1, files("proc/meminfo", "MemTotal: 167772160 kB\n"), 1 << 30},
		"untold":        {-1, files(), 64 << 20},
		"not a number":  {-1, files("proc/meminfo", "MemTotal: much\n"), 64 << 20},
		"no limit":      {-1, files("proc/meminfo", info, "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "max\n"), 1 << 30},
		"group":         {-1, files("proc/meminfo", info, "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max", "4294967296\n"), 256 << 20},
		"group above":   {-1, files("proc/meminfo", info, "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/memory.max", "4294967296\n"), 256 << 20},
		"container":     {-1, files("proc/meminfo", info, "proc/self/cgroup", "0::/../a\n", "sys/fs/cgroup/memory.max", "4294967296\n"), 256 << 20},
		"version 1":     {-1, files("proc/meminfo", info, "proc/self/cgroup", "4:cpu:/x\n5:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4294967296\n"), 256 << 20},
		"version 1 max": {-1, files("proc/meminfo", info, "proc/self/cgroup", "5:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"), 1 << 30},
		"small group":   {-1, files("proc/meminfo", info, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "268435456\n"), 64 << 20},
	} {
		if got := pageCache(c.set, c.root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
