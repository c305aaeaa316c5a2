package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Layer is one place that static values come from; Name stands in messages ("server.properties",
// "environment", "--override").
type Layer struct {
	Name   string
	Values map[string]string
}

// Warning is one thing about the static configuration that the operator should read.
type Warning struct {
	// Key is the key it is about; "" when it is about several.
	Key  string
	Text string
}

// Static is what the process was started with: file, environment and overrides, checked. It never
// changes.
type Static struct {
	values map[string]string // canonical spelling
	origin map[string]string // key -> name of its layer
}

// NewStatic checks and joins layers; a later layer wins. An unknown key is a warning with the
// nearest name, and all inert keys together are one. The error names every bad value.
func NewStatic(layers ...Layer) (*Static, []Warning, error) {
	s := &Static{values: make(map[string]string), origin: make(map[string]string)}
	for _, layer := range layers {
		for name, value := range layer.Values {
			s.values[name], s.origin[name] = value, layer.Name
		}
	}
	var errs []error
	var warnings []Warning
	var inert []string
	for _, name := range s.Names() {
		k, ok := BrokerKey(name)
		switch {
		case ok:
			canonical, err := k.Parse(s.values[name])
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.origin[name], err))
				continue
			}
			s.values[name] = canonical
			if k.Inert {
				inert = append(inert, name)
			}
		case known(name):
			inert = append(inert, name)
		default:
			warnings = append(warnings, Warning{Key: name, Text: s.unknownText(name)})
		}
	}
	if len(errs) == 0 {
		more, err := s.crossCheck()
		warnings = append(warnings, more...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(inert) > 0 {
		warnings = append(warnings, Warning{
			Text: "known to Kafka, without effect here: " + strings.Join(inert, ", "),
		})
	}
	if len(errs) > 0 {
		return nil, warnings, errors.Join(errs...)
	}
	return s, warnings, nil
}

func (s *Static) unknownText(name string) string {
	text := fmt.Sprintf("%s: unknown key %s", s.origin[name], name)
	if best := nearest(name); best != "" {
		text += ", did you mean " + best + "?"
	}
	if _, ok := TopicKey(name); ok {
		k, _ := TopicKey(name)
		text = fmt.Sprintf("%s: %s is a topic key and does nothing here", s.origin[name], name)
		if len(k.Aliases) > 0 {
			text += ", the broker's key is " + k.Aliases[0].Name
		}
	}
	return text
}

// Names lists the keys that are set, sorted.
func (s *Static) Names() []string { return slices.Sorted(maps.Keys(s.values)) }

// Get gives the text of a broker key: the value that was set, else that of its stand-ins, else the
// default; "" when there is none.
func (s *Static) Get(name string) string {
	v, _ := (&Layers{static: s}).brokerText(name)
	return v
}

// Lookup gives the value that was set, and the name of the layer that set it.
func (s *Static) Lookup(name string) (value, layer string, ok bool) {
	value, ok = s.values[name]
	return value, s.origin[name], ok
}

// With is s with more values on top: facts learnt while starting, such as the node id. The values
// are not checked.
func (s *Static) With(layer string, values map[string]string) *Static {
	next := &Static{values: maps.Clone(s.values), origin: maps.Clone(s.origin)}
	for name, value := range values {
		next.values[name], next.origin[name] = value, layer
	}
	return next
}

// NodeOf is the node id that node.id or broker.id asks for; ok is false when neither does.
func (s *Static) NodeOf() (id kafkaproto.NodeID, ok bool) {
	n, err := strconv.ParseInt(s.Get("node.id"), 10, 32)
	if err != nil || n < 0 {
		return 0, false
	}
	return kafkaproto.NodeID(n), true
}
