package config

import (
	"slices"
	"strings"
)

// Type is a key's type, with the numbers that DescribeConfigs sends (KIP-569).
type Type int8

// The types of Kafka's ConfigDef.
const (
	Unknown  Type = 0
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String is the type's name as Kafka's error texts spell it.
func (t Type) String() string {
	names := [...]string{
		"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS",
		"PASSWORD",
	}
	if t < 0 || int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// Source says which layer a value came from, with the numbers that DescribeConfigs sends.
type Source int8

// The sources of DescribeConfigs that the broker uses.
const (
	SourceTopic          Source = 1
	SourceDynamicBroker  Source = 2
	SourceDynamicDefault Source = 3
	SourceStatic         Source = 4
	SourceDefault        Source = 5
)

// Update says where a broker key may be altered at run time.
type Update int8

// The ways of altering a broker key.
const (
	// AtStart keys are read once; DescribeConfigs calls them read-only.
	AtStart Update = iota
	// PerBroker keys are altered on one broker and not cluster-wide.
	PerBroker
	// Anywhere keys are altered on one broker or as cluster-wide defaults.
	Anywhere
)

// Key is one row of the registry.
type Key struct {
	Name string
	Type Type
	// Default is the text of the default; Null means that there is no value by default.
	Default string
	Null    bool
	// Valid bounds the values beyond their type.
	Valid Valid
	// Doc is what DescribeConfigs and the documentation show.
	Doc string
	// Aliases are the broker keys that give a topic key its default, strongest first. On a broker
	// key they are the keys that stand in while it has no value.
	Aliases []Alias
	Update  Update
	Inert   bool // known to Kafka, without effect here
	Hidden  bool // one of Kafka's internal keys: described only when it is set
	Ours    bool // not one of Kafka's
}

// Alias is a broker key whose value stands in for another key's, times Scale.
type Alias struct {
	Name string
	// Scale is how many units of the key one unit of the alias is; 0 means 1.
	Scale int64
}

// Sensitive reports whether the value must not be shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// ReadOnly reports whether the key cannot be altered at run time.
func (k *Key) ReadOnly() bool { return k.Update == AtStart }

// Parse checks a value and gives its canonical spelling. The error is Kafka's sentence.
func (k *Key) Parse(value string) (string, error) {
	canonical, err := parseType(k.Name, k.Type, value)
	if err != nil {
		return "", err
	}
	if k.Valid.check != nil {
		if err := k.Valid.check(k.Name, canonical); err != nil {
			return "", err
		}
	}
	if k.Type == List {
		canonical = strings.Join(unique(splitList(canonical)), ",")
	}
	return canonical, nil
}

// TopicKeys gives all topic keys, sorted by name. They must not be changed.
func TopicKeys() []Key { return topicKeys }

// BrokerKeys gives all broker keys, sorted by name. They must not be changed.
func BrokerKeys() []Key { return brokerKeys }

// TopicKey finds a topic key by name.
func TopicKey(name string) (*Key, bool) { return find(topicKeys, name) }

// BrokerKey finds a broker key by name. A listener's own setting, "listener.name.<listener>.<key>",
// is found by its last part.
func BrokerKey(name string) (*Key, bool) {
	if base, ok := listenerKey(name); ok {
		return find(brokerKeys, base)
	}
	return find(brokerKeys, name)
}

// listenerKey cuts "listener.name.<listener>." off, and a SASL mechanism behind it.
func listenerKey(name string) (base string, ok bool) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return "", false
	}
	_, base, ok = strings.Cut(rest, ".")
	if _, known := find(brokerKeys, base); ok && !known {
		if _, behind, ok := strings.Cut(base, "."); ok {
			return behind, true
		}
	}
	return base, ok
}

func find(keys []Key, name string) (*Key, bool) {
	i, ok := slices.BinarySearchFunc(keys, name, func(k Key, name string) int {
		return strings.Compare(k.Name, name)
	})
	if !ok {
		return nil, false
	}
	return &keys[i], true
}

// brokerKeys joins the tables of one file each and sorts them.
var brokerKeys = sorted(netKeys, logKeys, coordinatorKeys, securityKeys,
	controllerKeys, quotaKeys, replicaKeys, threadKeys, otherKeys,
	consumerKeys, streamsKeys, shareKeys, saslKeys, tokenKeys, javaKeys, tieredKeys)

func sorted(tables ...[]Key) []Key {
	all := slices.Concat(tables...)
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// inert makes a table of keys without effect, which share the reason.
func inert(reason string, keys []Key) []Key {
	for i := range keys {
		keys[i].Inert, keys[i].Doc = true, reason+": accepted, without effect."
	}
	return keys
}
