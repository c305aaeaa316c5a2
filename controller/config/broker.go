package config

import "time"

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name, Protocol string
	Host           string
	Port           int32
}

// Broker is the typed view of the broker's settings.
type Broker struct {
	NodeID                  int32 // -1 when not asked for
	Rack                    string
	Listeners               []Listener
	Advertised              []Listener // empty: chosen per connection
	HTTPListeners           []string
	DataDir                 string
	AutoCreateTopics        bool
	DeleteTopicEnable       bool
	NumPartitions           int32
	DefaultReplication      int16
	RequestTimeout          time.Duration
	MaxRequestBytes         int
	FetchMaxBytes           int
	FetchSessionSlots       int
	IdleTimeout             time.Duration
	MaxConns, MaxConnsPerIP int
}
