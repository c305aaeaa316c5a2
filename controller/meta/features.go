package meta

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// metadataVersion is the feature that stands for Kafka's release; ours do not depend on it.
const metadataVersion = "metadata.version"

// Feature is a finalized feature level (KIP-584).
type Feature struct {
	Name  string `json:"name"`
	Level int16  `json:"featureLevel"`
}

// Supported is a feature this build knows, with its range.
type Supported struct {
	Name     string
	Min, Max int16
	// Level is what a new cluster finalizes.
	Level int16
}

// SupportedFeatures lists what ApiVersions shows as supported, sorted by name (ruling 21). Kafka's
// UIs tell the release by metadata.version; transaction.version 2 keeps producers from learning
// another protocol when transactions are served. The others come when they are served.
func SupportedFeatures() []Supported {
	return []Supported{
		{Name: metadataVersion, Min: 7, Max: 33, Level: 33},
		{Name: "transaction.version", Min: 0, Max: 2, Level: 2},
	}
}

func ownFeatures() []FeatureRange {
	var all []FeatureRange
	for _, s := range SupportedFeatures() {
		all = append(all, FeatureRange{s.Name, s.Min, s.Max})
	}
	return all
}

// FeaturesEpoch is the epoch that ApiVersions answers beside the finalized features: the version of
// the last change of one; -1 when there are none.
func (i *Image) FeaturesEpoch() int64 { return i.featuresEpoch }

// Features gives the finalized features with a level above 0, sorted by name.
func (i *Image) Features() []Feature { return i.features }

// Feature gives a feature's finalized level; 0 when it is not finalized.
func (i *Image) Feature(name string) int16 {
	level, _ := i.decided(name)
	return level
}

// decided tells a feature that was finalized at level 0 from one that nobody decided about.
func (i *Image) decided(name string) (level int16, ok bool) {
	for _, f := range i.allFeatures {
		if f.Name == name {
			return f.Level, true
		}
	}
	return 0, false
}

// setFeature keeps the lists sorted, and levels of 0 out of what Features gives.
func (i *Image) setFeature(f Feature) {
	all := slices.DeleteFunc(slices.Clone(i.allFeatures), func(x Feature) bool {
		return x.Name == f.Name
	})
	all = append(all, f)
	slices.SortFunc(all, func(a, b Feature) int { return strings.Compare(a.Name, b.Name) })
	i.allFeatures = all
	i.features = slices.DeleteFunc(slices.Clone(all), func(x Feature) bool { return x.Level == 0 })
}

func (r featureRecord) apply(i *Image) error {
	if r.Name == "" || r.Level < 0 {
		return fmt.Errorf("feature %.60q at level %d", r.Name, r.Level)
	}
	i.setFeature(r.Feature)
	i.featuresEpoch = i.version
	return nil
}

func (e *execution) initCluster(c InitCluster) (Result, error) {
	switch e.image.clusterID {
	case c.ClusterID:
	case "":
		e.emit(clusterRecord(c))
	default:
		return nil, fmt.Errorf("the metadata is of cluster %s, not of %s", e.image.clusterID,
			c.ClusterID)
	}
	for _, f := range SupportedFeatures() {
		// What somebody lowered stays so, and what some broker does not know has to wait.
		_, ok := e.image.decided(f.Name)
		if !ok && f.Level > 0 && e.unsupported(f.Name, f.Level) == "" {
			e.emit(featureRecord{Feature{Name: f.Name, Level: f.Level}})
		}
	}
	return ClusterInitialized(c), nil
}

// unsupported says who cannot do a feature at a level; "" when all can.
func (e *execution) unsupported(name string, level int16) string {
	own := Node{}
	if text := beyond(own.supports(name), level,
		fmt.Sprintf("Local controller %d", e.env.Node)); text != "" {
		return text
	}
	for _, n := range e.image.nodes {
		if text := beyond(n.supports(name), level, fmt.Sprintf("Broker %d", n.ID)); text != "" {
			return text
		}
	}
	return ""
}

func beyond(f FeatureRange, level int16, who string) string {
	switch {
	case f.Max > 0 && level >= f.Min && level <= f.Max:
		return ""
	case f.Max == 0:
		return who + " does not support this feature."
	}
	return fmt.Sprintf("%s only supports versions %d-%d", who, f.Min, f.Max)
}

// updateFeatures is all or nothing; the sentences are those of Kafka 4.4.0.
func (e *execution) updateFeatures(c UpdateFeatures) (Result, error) {
	if c.IfEpoch > 0 && c.IfEpoch != e.image.featuresEpoch {
		return nil, kafkaproto.Faultf(kerr.InvalidUpdateVersion,
			"the features are at epoch %d, the change was made for %d", e.image.featuresEpoch, c.IfEpoch)
	}
	level := make(map[string]int16)
	for _, u := range c.Updates {
		have, ok := level[u.Name]
		if !ok {
			have = e.image.Feature(u.Name)
		}
		if text := e.refusedFeature(u, have); text != "" {
			return nil, kafkaproto.Faultf(kerr.InvalidUpdateVersion, "The update failed for all "+
				"features since the following feature had an error: %s", text)
		}
		if level[u.Name] = u.Level; u.Level != have && !c.ValidateOnly {
			e.emit(featureRecord{Feature{Name: u.Name, Level: u.Level}})
		}
	}
	return FeaturesUpdated{}, nil
}

// refusedFeature says what is wrong with an update; "" when nothing is.
func (e *execution) refusedFeature(u FeatureUpdate, have int16) string {
	text := ""
	switch {
	case u.Type < FeatureUpgrade || u.Type > FeatureUnsafeDowngrade:
		text = "The controller does not support the given upgrade type."
	case u.Level < 0:
		text = "A feature version cannot be less than 0."
	default:
		text = e.unsupported(u.Name, u.Level)
	}
	switch {
	case text != "":
	case u.Level < have && u.Type == FeatureUpgrade:
		text = "Can't downgrade the version of this feature without setting the upgrade type to " +
			"either safe or unsafe downgrade."
	case u.Level > have && u.Type != FeatureUpgrade:
		text = "Can't downgrade to a newer version."
	case u.Level < have && u.Name == metadataVersion:
		why := "Refusing to perform the requested downgrade because it might delete metadata information."
		if u.Type == FeatureUnsafeDowngrade {
			why = "Unsafe metadata downgrade is not supported in this version."
		}
		return fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. %s", have, u.Level, why)
	default:
		return ""
	}
	return fmt.Sprintf("Invalid update version %d for feature %s. %s", u.Level, u.Name, text)
}
