package meta

import (
	"sync/atomic"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Topic is one topic; it never changes.
type Topic struct {
	Name       string
	ID         kafkaproto.TopicID
	Partitions []Partition       // by number
	Config     map[string]string // overrides only, in canonical spelling
	Internal   bool              // one of Kafka's internal topics
	Version    int64             // counts changes of this topic, from 1, but not of its replicas

	settings atomic.Pointer[settings] // what Settings remembers
}

// settings is a typed view with the layers that it was made from.
type settings struct {
	layers *config.Layers
	view   *config.Topic
}

// Settings is the typed view of the topic's configuration, remembered until a layer changes. It
// must not be changed.
func (t *Topic) Settings(r *config.Resolver) *config.Topic {
	layers := r.Layers()
	if s := t.settings.Load(); s != nil && s.layers == layers {
		return s.view
	}
	view := layers.Topic(t.Config)
	view.Internal = t.Internal
	t.settings.Store(&settings{layers: layers, view: view})
	return view
}

// Change is one difference between two images. Old nil: created; New nil: deleted.
type Change struct{ Old, New *Topic }

// TopicChanges lists what differs between two images, without walking what they share: first the
// deletions, then the rest. A topic made anew under its old name is a deletion and a creation.
func TopicChanges(old, new *Image) []Change {
	var deleted, rest []Change
	old.byID.diff(new.byID, func(before, after **Topic) {
		switch {
		case after == nil:
			deleted = append(deleted, Change{Old: *before})
		case before == nil:
			rest = append(rest, Change{New: *after})
		case *before != *after:
			rest = append(rest, Change{Old: *before, New: *after})
		}
	})
	return append(deleted, rest...)
}
