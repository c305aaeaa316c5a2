package config

import (
	"maps"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Layers is the stack of values under a topic's overrides. It never changes.
type Layers struct {
	static         *Static
	clusterDefault map[string]string
	broker         map[string]string
}

// NewLayers puts the dynamic settings of the cluster and of this broker over the static ones. The
// maps are not copied and must not be changed afterwards.
func NewLayers(s *Static, clusterDefault, broker map[string]string) *Layers {
	return &Layers{static: s, clusterDefault: clusterDefault, broker: broker}
}

// brokerSources are the layers under the topic's, strongest first.
var brokerSources = [...]Source{
	SourceDynamicBroker, SourceDynamicDefault, SourceStatic, SourceDefault,
}

// at gives a broker key's value in one layer.
func (l *Layers) at(name string, src Source) (value string, ok bool) {
	switch src {
	case SourceDynamicBroker:
		value, ok = l.broker[name]
	case SourceDynamicDefault:
		value, ok = l.clusterDefault[name]
	case SourceStatic:
		if l.static != nil {
			value, ok = l.static.values[name]
		}
	default:
		if k, known := find(brokerKeys, name); known && !k.Null {
			value, ok = k.Default, true
		}
	}
	return value, ok
}

// own gives a broker key's own value, without stand-ins.
func (l *Layers) own(name string) (value string, ok bool) {
	for _, src := range brokerSources {
		if v, ok := l.at(name, src); ok {
			return v, true
		}
	}
	return "", false
}

// brokerText gives a broker key's value in force, by its stand-ins when it has none itself.
func (l *Layers) brokerText(name string) (value string, ok bool) {
	if v, ok := l.own(name); ok {
		return v, true
	}
	k, ok := find(brokerKeys, name)
	if !ok {
		return "", false
	}
	return l.aliasText(k.Aliases)
}

// aliasText is the value of the first alias that has one, in the unit of the key it stands for.
func (l *Layers) aliasText(aliases []Alias) (value string, ok bool) {
	for _, a := range aliases {
		if v, ok := l.own(a.Name); ok {
			return scale(v, a.Scale), true
		}
	}
	return "", false
}

// scale turns hours and minutes, which are 32-bit numbers, into milliseconds; a negative number means
// "no bound" in any unit.
func scale(value string, by int64) string {
	if by <= 1 {
		return value
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return value
	case n < 0:
		return "-1"
	}
	return strconv.FormatInt(n*by, 10)
}

// TopicText gives the value in force of a topic key under the given overrides.
func (l *Layers) TopicText(name string, overrides map[string]string) (value string, ok bool) {
	if v, ok := overrides[name]; ok {
		return v, true
	}
	k, ok := TopicKey(name)
	if !ok {
		return "", false
	}
	if v, ok := l.aliasText(k.Aliases); ok {
		return v, true
	}
	return k.Default, !k.Null
}

// reader turns texts into numbers. A text that does not parse, which only a log written by another
// release can hold, counts as the key's default.
type reader struct {
	text     func(name string) (string, bool)
	fallback func(name string) string
}

func (r reader) long(name string) int64 {
	v, _ := r.text(name)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		n, _ = strconv.ParseInt(r.fallback(name), 10, 64)
	}
	return n
}

func (r reader) number(name string) int { return int(r.long(name)) }

func (r reader) double(name string) float64 {
	v, _ := r.text(name)
	f, err := parseDouble(v)
	if err != nil {
		f, _ = parseDouble(r.fallback(name))
	}
	return f
}

func (r reader) flag(name string) bool {
	v, _ := r.text(name)
	return v == "true"
}

func (r reader) str(name string) string {
	v, _ := r.text(name)
	return v
}

// millis is a duration in milliseconds; negative numbers stay -1 ns ("no bound"), and what is too
// large for a time.Duration (292 years) becomes the largest one.
func (r reader) millis(name string) time.Duration { return millis(r.long(name)) }

func millis(n int64) time.Duration {
	switch {
	case n < 0:
		return -1
	case n > math.MaxInt64/int64(time.Millisecond):
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

// Resolver answers for the stack of layers in force. All methods may be called by any goroutine.
type Resolver struct {
	current atomic.Pointer[view]
	change  sync.Mutex // held while a new view is made
}

// view is a stack of layers with the broker's typed view of it.
type view struct {
	layers *Layers
	broker *Broker
}

// NewResolver starts with the static layers only.
func NewResolver(s *Static) *Resolver {
	r := &Resolver{}
	r.set(NewLayers(s, nil, nil))
	return r
}

func (r *Resolver) set(l *Layers) { r.current.Store(&view{layers: l, broker: newBroker(l)}) }

// SetDynamic swaps in the dynamic layers of the metadata: cluster-wide defaults and this broker's.
func (r *Resolver) SetDynamic(clusterDefault, broker map[string]string) {
	r.change.Lock()
	defer r.change.Unlock()
	l := r.Layers()
	if maps.Equal(l.clusterDefault, clusterDefault) && maps.Equal(l.broker, broker) {
		return
	}
	r.set(NewLayers(l.static, clusterDefault, broker))
}

// Pin adds static values learnt while starting (node.id, log.dirs), so that DescribeConfigs shows
// them.
func (r *Resolver) Pin(values map[string]string) {
	r.change.Lock()
	defer r.change.Unlock()
	l := r.Layers()
	r.set(NewLayers(l.static.With("start", values), l.clusterDefault, l.broker))
}

// Layers is the stack in force; it changes identity when, and only when, a value may have changed.
func (r *Resolver) Layers() *Layers { return r.current.Load().layers }

// Static is the bottom of the stack.
func (r *Resolver) Static() *Static { return r.Layers().static }

// Topic is the typed view of a topic with the given overrides.
func (r *Resolver) Topic(overrides map[string]string) Topic { return *r.Layers().Topic(overrides) }

// Broker is the typed view of this broker's settings; it must not be changed.
func (r *Resolver) Broker() *Broker { return r.current.Load().broker }

// BrokerText is a broker key's value in force; "" when it has none.
func (l *Layers) BrokerText(name string) string {
	v, _ := l.brokerText(name)
	return v
}

// BrokerNumber is the value in force of a broker key that is a whole number.
func (l *Layers) BrokerNumber(name string) int64 { return l.brokerReader().long(name) }

// BrokerFlag is the value in force of a broker key that is true or false.
func (l *Layers) BrokerFlag(name string) bool { return l.brokerReader().flag(name) }
