package segment

import (
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// The names of the two text files in a partition directory.
const (
	EpochFile    = "leader-epoch-checkpoint"
	MetadataFile = "partition.metadata"
)

// EpochStart says where a leader epoch begins.
type EpochStart struct {
	Epoch kafkaproto.LeaderEpoch
	Start kafkaproto.Offset
}

// ReadEpochs reads leader-epoch-checkpoint in dir. fs.ErrNotExist when it is missing, a corruption
// error when it is not what Kafka or we write.
func ReadEpochs(fs vfs.FS, dir string) ([]EpochStart, error) { panic("todo") }

// WriteEpochs replaces it, durably.
func WriteEpochs(fs vfs.FS, dir string, epochs []EpochStart) error { panic("todo") }

// ReadMetadata reads the topic id in dir's partition.metadata.
func ReadMetadata(fs vfs.FS, dir string) (kafkaproto.TopicID, error) { panic("todo") }

// WriteMetadata replaces it, durably.
func WriteMetadata(fs vfs.FS, dir string, id kafkaproto.TopicID) error { panic("todo") }
