package store

import (
	"path"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

func TestReplicaID(t *testing.T) {
	fsys, clk := vfs.PowerLoss(1), clock.NewManual(testStart)
	s := openStore(t, testOptions(t, fsys, clk))
	l := openLog(t, s, 1, Config{Strict: true})
	if id, err := l.Replica(); id != 0 || err != nil {
		t.Errorf("new log: %d, %v", id, err)
	}
	for _, id := range []uint64{7, 1<<64 - 1} {
		if err := l.SetReplica(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	fsys = fsys.Crash(vfs.PowerCrash)
	_ = s.Close() // it has crashed
	s = openStore(t, testOptions(t, fsys, clk))
	defer closeStore(t, s)
	l = openLog(t, s, 1, Config{Strict: true})
	if id, err := l.Replica(); id != 1<<64-1 || err != nil {
		t.Errorf("after a power loss: %d, %v", id, err)
	}
	for _, text := range []string{"", "version: 0\n", "version: 0\nreplica_id: 0\n", "version: 0\nreplica_id: x\n",
		"version: 1\nreplica_id: 3\n", "replica_id: 3\n"} {
		if err := vfs.WriteFileAtomic(fsys, path.Join(l.dir, replicaFile), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if id, err := l.Replica(); err == nil {
			t.Errorf("%q is read as %d", text, id)
		}
	}
}
