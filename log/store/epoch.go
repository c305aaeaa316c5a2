package store

import (
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/segment"
)

// addEpoch adds the start of an epoch. The caller holds mu, or is the only user.
func (l *Log) addEpoch(e segment.EpochStart) {
	old := *l.epochs.Load()
	n := len(old)
	if n > 0 && old[n-1].Epoch >= e.Epoch {
		return
	}
	l.setEpochs(append(old[:n:n], e))
}

// setEpochs replaces the epochs; leader-epoch-checkpoint follows soon. The caller holds mu, or is the
// only user.
func (l *Log) setEpochs(epochs []segment.EpochStart) {
	l.epochs.Store(&epochs)
	l.store.janitor.epochs(l)
}

// keptEpochs are the epochs from the log start on; the first begins there, as Kafka's cache has it
// after its truncateFromStart.
func (l *Log) keptEpochs() []segment.EpochStart {
	epochs, start := *l.epochs.Load(), l.StartOffset()
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Start > start })
	if i == 0 {
		return epochs
	}
	kept := append([]segment.EpochStart(nil), epochs[i-1:]...)
	kept[0].Start = start
	return kept
}

// EpochEnd answers OffsetForLeaderEpoch (row 34): the epoch asked for, or the last one before it,
// and the offset at which it ended.
func (l *Log) EpochEnd(asked kafkaproto.LeaderEpoch) (kafkaproto.LeaderEpoch, kafkaproto.Offset) {
	epochs := l.keptEpochs()
	n := len(epochs)
	if asked == kafkaproto.NoEpoch || n == 0 || asked > epochs[n-1].Epoch {
		return kafkaproto.NoEpoch, -1
	}
	if asked == epochs[n-1].Epoch {
		return asked, l.EndOffset()
	}
	next := sort.Search(n, func(i int) bool { return epochs[i].Epoch > asked })
	if next == 0 {
		return asked, epochs[0].Start
	}
	return epochs[next-1].Epoch, epochs[next].Start
}

// EpochOf is the leader epoch of the record at off, or NoEpoch.
func (l *Log) EpochOf(off kafkaproto.Offset) kafkaproto.LeaderEpoch {
	epochs := *l.epochs.Load()
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Start > off })
	if i == 0 {
		return kafkaproto.NoEpoch
	}
	return epochs[i-1].Epoch
}
