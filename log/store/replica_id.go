package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// replicaFile says which incarnation of the partition a directory holds. A directory of an earlier one
// must not vote, or be counted, under the id of a later one (ruling 23): it may lack what it has
// acknowledged since.
const replicaFile = "replica.metadata"

// Replica is the id that the controller gave to the replica in this directory; 0: none was noted.
func (l *Log) Replica() (uint64, error) {
	data, err := vfs.ReadFile(l.store.fs, path.Join(l.dir, replicaFile), 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("replica id of %s: %w", l.tp, err)
	}
	version, rest, _ := strings.Cut(string(data), "\n")
	text, found := strings.CutPrefix(rest, "replica_id: ")
	id, err := strconv.ParseUint(strings.TrimSuffix(text, "\n"), 10, 64)
	switch {
	case strings.HasPrefix(version, "version: ") && version != "version: 0":
		return 0, fmt.Errorf("%s of %s has %s, this release knows version 0", replicaFile, l.tp, version)
	case version != "version: 0" || !found || err != nil || id == 0:
		return 0, kafkaproto.Corruptf("%s of %s says %.40q", replicaFile, l.tp, data)
	}
	return id, nil
}

// SetReplica notes the replica's id durably, before it votes or acknowledges anything. A log that is offline
// does neither, and is left as it is.
func (l *Log) SetReplica(id uint64) error {
	if l.Offline() != nil {
		return nil
	}
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	name := path.Join(l.dir, replicaFile)
	if err := vfs.WriteFileAtomic(l.store.fs, name, fmt.Appendf(nil, "version: 0\nreplica_id: %d\n", id)); err != nil {
		return fmt.Errorf("replica id of %s: %w", l.tp, err)
	}
	return nil
}
