package journal

import (
	"testing"

	"github.com/sluicelog/sluice/log/vfs"
)

// BenchmarkAppendSync is one commit round of one partition: a hard state and a mark.
func BenchmarkAppendSync(b *testing.B) {
	j, _ := mustOpen(b, vfs.Memory(), Options{})
	defer j.Close()
	g := groupN(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		mustAppend(b, j, Record{g, HardState{Term: uint64(i), Commit: uint64(i)}}, Record{g,
			Synced{Position: int64(i)}})
		mustDo(b, j.Sync())
	}
}

// BenchmarkAppendSyncDisk is the same on the machine's disk.
func BenchmarkAppendSyncDisk(b *testing.B) {
	j, _, err := Open(vfs.OS(), b.TempDir()+"/journal", Options{})
	mustDo(b, err)
	defer j.Close()
	g := groupN(1)
	for i := 0; b.Loop(); i++ {
		mustAppend(b, j, Record{g, HardState{Term: uint64(i), Commit: uint64(i)}}, Record{g,
			Synced{Position: int64(i)}})
		mustDo(b, j.Sync())
	}
}

// BenchmarkMarks is one commit round of a thousand partitions.
func BenchmarkMarks(b *testing.B) {
	j, _ := mustOpen(b, vfs.Memory(), Options{})
	defer j.Close()
	recs := make([]Record, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for n := range recs {
			recs[n] = Record{Group{Partition: int32(n)}, Synced{Position: int64(i)}}
		}
		mustAppend(b, j, recs...)
		mustDo(b, j.Sync())
	}
}

func tenThousandGroups() *State {
	st := newState()
	for n := range 10000 {
		g := Group{Partition: int32(n)}
		g.Topic[3] = byte(n % 100)
		st.Groups[g] = &GroupState{
			HardState: HardState{Term: 7, Vote: 1, Commit: 1 << 20},
			Window:    Window{FirstIndex: 1 << 19, Term: 6, FirstOffset: 1 << 22},
			Conf:      Conf{Index: 1, State: ConfState{Voters: []uint64{1, 2, 3}}},
			Sides: []Side{{Index: 17, Term: 6, Kind: SideNoop}, {Index: 1<<19 + 3, Term: 7,
				Kind: SideNoop, AtOffset: 1 << 22}},
			Synced: Synced{Offset: 1 << 22, Index: 1 << 19, Position: 1 << 20},
		}
	}
	return st
}

// BenchmarkCheckpoint10k is what a roll with 10,000 groups costs, sync included.
func BenchmarkCheckpoint10k(b *testing.B) {
	j, _ := mustOpen(b, vfs.Memory(), Options{})
	defer j.Close()
	j.mu.state = tenThousandGroups()
	b.ReportAllocs()
	for b.Loop() {
		j.mu.Lock()
		mustDo(b, j.roll())
		j.mu.Unlock()
		mustDo(b, j.Sync())
	}
	b.ReportMetric(float64(j.mu.cur.off)/10000, "B/group")
}

// BenchmarkOpen10k replays such a checkpoint and writes the next.
func BenchmarkOpen10k(b *testing.B) {
	fs := vfs.Memory()
	j, _ := mustOpen(b, fs, Options{})
	j.mu.state = tenThousandGroups()
	j.mu.Lock()
	mustDo(b, j.roll())
	j.mu.Unlock()
	mustDo(b, j.Close())
	b.ReportAllocs()
	for b.Loop() {
		j, _ := mustOpen(b, fs, Options{})
		mustDo(b, j.Close())
	}
}
