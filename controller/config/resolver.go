package config

import "github.com/sluicelog/sluice/kafkaproto"

// Static is what the process was started with: file, environment and overrides, checked.
type Static struct{}

// Warning is one thing about the static configuration that the operator should read.
type Warning struct{ Key, Text string }

// Layer is one place that static values come from, for messages ("server.properties", "environment").
type Layer struct {
	Name   string
	Values map[string]string
}

// NewStatic checks and joins layers; a later layer wins. Unknown keys become warnings with the
// nearest name, inert keys one summary warning; a bad value is an error that names all of them.
func NewStatic(layers ...Layer) (*Static, []Warning, error) { panic("todo") }

// Get gives the text of a broker key: set value or default.
func (s *Static) Get(name string) string { panic("todo") }

// Entry is one row of DescribeConfigs.
type Entry struct {
	Name      string
	Value     *string
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Synonyms  []Synonym
	Type      Type
	Doc       string
}

// Synonym is one layer's value for an entry, strongest first.
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// Resolver answers for the current stack of layers. All methods may be called from any goroutine.
type Resolver struct{}

// NewResolver starts with the static layers only.
func NewResolver(s *Static) *Resolver { panic("todo") }

// SetDynamic swaps in the dynamic layers of the metadata image: cluster default and this broker.
func (r *Resolver) SetDynamic(clusterDefault, broker map[string]string) { panic("todo") }

// Topic is the typed view of a topic with the given overrides.
func (r *Resolver) Topic(overrides map[string]string) Topic { panic("todo") }

// Broker is the typed view of this broker's settings; do not change it.
func (r *Resolver) Broker() *Broker { panic("todo") }

// DescribeTopic lists all topic keys for a topic with the given overrides, sorted by name.
func (r *Resolver) DescribeTopic(overrides map[string]string) []Entry { panic("todo") }

// DescribeBroker lists all keys of this broker.
func (r *Resolver) DescribeBroker() []Entry { panic("todo") }

// DescribeDefaults lists the cluster-wide dynamic defaults (broker resource "").
func (r *Resolver) DescribeDefaults() []Entry { panic("todo") }

// NodeOf reports the node id that node.id or broker.id asks for; ok is false when unset.
func (s *Static) NodeOf() (id kafkaproto.NodeID, ok bool) { panic("todo") }
