package config

import (
	"maps"
	"slices"
	"strings"
)

// Entry is one row of DescribeConfigs.
type Entry struct {
	Name string
	// Value is nil when there is none, or when it is sensitive.
	Value     *string
	Source    Source
	ReadOnly  bool
	Sensitive bool
	// Synonyms are all layers that have a value, strongest first, the entry's own included.
	Synonyms []Synonym
	Type     Type
	Doc      string
}

// Synonym is one layer's value for an entry, in the unit of the key named.
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// chain lists the values of the given broker keys, layer by layer.
func (l *Layers) chain(names []string, sensitive bool) []Synonym {
	var all []Synonym
	for _, src := range brokerSources {
		for _, name := range names {
			if v, ok := l.at(name, src); ok {
				all = append(all, Synonym{Name: name, Value: shown(v, sensitive), Source: src})
			}
		}
	}
	return all
}

func shown(v string, sensitive bool) *string {
	if sensitive {
		return nil
	}
	return &v
}

// fromOwn drops what comes before the first value of name itself, as Kafka does.
func fromOwn(chain []Synonym, name string) []Synonym {
	i := slices.IndexFunc(chain, func(s Synonym) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return chain[i:]
}

func sourceOf(chain []Synonym) Source {
	if len(chain) == 0 {
		return SourceDefault
	}
	return chain[0].Source
}

// DescribeTopic lists the topic keys of a topic with the given overrides, sorted by name.
func (l *Layers) DescribeTopic(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(topicKeys))
	for i := range topicKeys {
		k := &topicKeys[i]
		override, overridden := overrides[k.Name]
		if k.Hidden && !overridden {
			continue
		}
		e := Entry{Name: k.Name, Type: k.Type, Doc: k.Doc, Sensitive: k.Sensitive()}
		if v, ok := l.TopicText(k.Name, overrides); ok {
			e.Value = shown(v, e.Sensitive)
		}
		e.Synonyms = l.topicChain(k)
		if overridden {
			own := Synonym{Name: k.Name, Value: shown(override, e.Sensitive), Source: SourceTopic}
			e.Synonyms = append([]Synonym{own}, e.Synonyms...)
		}
		e.Source = sourceOf(e.Synonyms)
		entries = append(entries, e)
	}
	return append(entries, unknownEntries(overrides, SourceTopic, func(name string) bool {
		_, ok := TopicKey(name)
		return ok
	})...)
}

// topicChain is the part of a topic key's synonyms below its override. Kafka lists nothing when
// only a stand-in has a default (retention.ms by log.retention.hours), and neither do we; but a
// stand-in that was set is listed here, so that its source can be seen.
func (l *Layers) topicChain(k *Key) []Synonym {
	if len(k.Aliases) == 0 {
		return nil
	}
	names := make([]string, len(k.Aliases))
	for i, a := range k.Aliases {
		names[i] = a.Name
	}
	chain := l.chain(names, k.Sensitive())
	if sourceOf(chain) == SourceDefault {
		return fromOwn(chain, names[0])
	}
	return chain
}

// DescribeBroker lists all keys of this broker, sorted by name.
func (l *Layers) DescribeBroker() []Entry {
	entries := make([]Entry, 0, len(brokerKeys))
	for i := range brokerKeys {
		k := &brokerKeys[i]
		e := l.brokerEntry(k, k.Name)
		if k.Hidden && e.Source == SourceDefault {
			continue
		}
		entries = append(entries, e)
	}
	for _, name := range l.otherNames() {
		k, ok := BrokerKey(name)
		if !ok {
			k = &Key{Name: name, Type: Unknown}
		}
		entries = append(entries, l.brokerEntry(k, name))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

func (l *Layers) brokerEntry(k *Key, name string) Entry {
	e := Entry{
		Name: name, Type: k.Type, Doc: k.Doc, ReadOnly: k.ReadOnly(),
		Sensitive: k.Sensitive() || k.Type == Unknown,
	}
	names := []string{name}
	for _, a := range k.Aliases {
		names = append(names, a.Name)
	}
	e.Synonyms = fromOwn(l.chain(names, e.Sensitive), name)
	e.Source = sourceOf(e.Synonyms)
	if v, ok := l.own(name); ok {
		e.Value = shown(v, e.Sensitive)
	}
	return e
}

// otherNames lists the keys that are set and not in the table under just this name.
func (l *Layers) otherNames() []string {
	names := make(map[string]bool)
	for _, layer := range []map[string]string{l.broker, l.clusterDefault, l.static.values} {
		for name := range layer {
			if _, ok := find(brokerKeys, name); !ok {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// DescribeDefaults lists the cluster-wide dynamic defaults, the broker resource "", sorted by name.
func (l *Layers) DescribeDefaults() []Entry {
	only := &Layers{static: &Static{}, clusterDefault: l.clusterDefault}
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(l.clusterDefault)) {
		k, ok := BrokerKey(name)
		if !ok {
			k = &Key{Name: name, Type: Unknown}
		}
		e := only.brokerEntry(k, name)
		e.Synonyms = slices.DeleteFunc(e.Synonyms, func(s Synonym) bool {
			return s.Source != SourceDynamicDefault
		})
		entries = append(entries, e)
	}
	return entries
}

// unknownEntries shows that a value is there whose key this release does not know.
func unknownEntries(values map[string]string, src Source, known func(string) bool) []Entry {
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if known(name) {
			continue
		}
		entries = append(entries, Entry{
			Name: name, Source: src, Sensitive: true, Type: Unknown,
			Synonyms: []Synonym{{Name: name, Source: src}},
		})
	}
	return entries
}

// DescribeTopic lists all topic keys for a topic with the given overrides, sorted by name.
func (r *Resolver) DescribeTopic(overrides map[string]string) []Entry {
	return r.Layers().DescribeTopic(overrides)
}

// DescribeBroker lists all keys of this broker, sorted by name.
func (r *Resolver) DescribeBroker() []Entry { return r.Layers().DescribeBroker() }

// DescribeDefaults lists the cluster-wide dynamic defaults (broker resource ""), sorted by name.
func (r *Resolver) DescribeDefaults() []Entry { return r.Layers().DescribeDefaults() }
