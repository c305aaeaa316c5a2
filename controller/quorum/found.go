package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/transport"
)

// Caller reaches a broker by its address; transport.TCP does.
type Caller interface {
	CallAddr(ctx context.Context, addr string, method uint16, body []byte) ([]byte, error)
}

// FoundOptions is what a broker with seeds begins with.
type FoundOptions struct {
	FS        vfs.FS
	Dir       string // the data directory; it exists
	Static    *config.Static
	Seeds     []string // of SeedsOf
	Transport Caller
	Clock     clock.Clock
	Logger    *slog.Logger
	Random    io.Reader // nil: crypto/rand
	// Peer, Rack, Endpoints, Incarnation are what this broker registers with.
	Peer        string
	Rack        string
	Endpoints   []meta.Endpoint
	Incarnation uint64
}

// Founding finds out which cluster a broker belongs to, and makes it when it is new.
type Founding struct {
	o FoundOptions

	mu struct {
		sync.Mutex
		machine founding
		member  *Membership // decided and durable
	}
	said string // why it waits, as logged
}

const (
	roundPause   = 200 * time.Millisecond // between two rounds of asking the seeds
	roundTimeout = 3 * time.Second        // for a seed's answer
	joinTimeout  = 30 * time.Second
)

// NewFounding reads the data directory. One that ran without peers so far is its cluster's only founder.
func NewFounding(o FoundOptions) (*Founding, error) {
	f := &Founding{o: o}
	w := wantedBy(o.Static)
	id, err := readIdentity(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	form, err := readMembership(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	switch {
	case form != nil && form.ClusterID != "":
		m := form.membership()
		if id != nil && *id != m.Identity {
			return nil, fmt.Errorf("%s and %s of %s say different things: %+v and %+v", propertiesFile, membershipFile,
				o.Dir, *id, m.Identity)
		}
		f.mu.member = &m
	case id != nil:
		f.mu.member = &Membership{
			Identity: *id, Founders: []Founder{{Directory: id.Directory, Node: id.NodeID, Peer: o.Peer}},
		}
	}
	if m := f.mu.member; m != nil {
		if err := m.Identity.check(o.Dir, w, meta.Empty()); err != nil {
			return nil, err
		}
		return f, m.settle(o.FS, o.Dir)
	}
	if form == nil {
		drawn, err := kafkaproto.NewTopicID(o.Random)
		if err != nil {
			return nil, err
		}
		form = &membershipForm{Directory: drawn.String()}
		if err := form.write(o.FS, o.Dir); err != nil {
			return nil, err
		}
	}
	own := card{Directory: form.Directory, Seeds: o.Seeds, Node: -1, Wants: w.clusterID}
	if w.nodeID != nil {
		own.Node = *w.nodeID
	}
	f.mu.machine = founding{own: own}
	return f, nil
}

// HandleCall answers brokers that look for their cluster, until a Controller does.
func (f *Founding) HandleCall(_ context.Context, _ kafkaproto.NodeID, method uint16, _ []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if method != MethodFound {
		return nil, kafkaproto.Faultf(kerr.NotController, "this broker has no cluster yet")
	}
	if f.mu.member != nil {
		return f.mu.member.card().encode()
	}
	return f.mu.machine.own.encode()
}

// Run asks the seeds, round by round, until this broker is a member. The membership is durable then.
func (f *Founding) Run(ctx context.Context) (Membership, error) {
	for {
		f.mu.Lock()
		m := f.mu.member
		f.mu.Unlock()
		if m != nil {
			return *m, nil
		}
		heard := f.ask(ctx)
		f.mu.Lock()
		f.mu.machine.heard = heard
		v := f.mu.machine.judge()
		f.mu.Unlock()
		if v.form == nil && v.err == nil && len(v.join) > 0 {
			v.form, v.err = f.join(ctx, v.join)
			v.wait = "no seed of the cluster answers to the wish to join"
		}
		switch {
		case v.err != nil:
			return Membership{}, v.err
		case v.form != nil:
			if err := v.form.settle(f.o.FS, f.o.Dir); err != nil {
				return Membership{}, err
			}
			f.mu.Lock()
			f.mu.member = v.form
			f.mu.Unlock()
			f.o.Logger.Info("member of a cluster", "cluster", v.form.Identity.ClusterID, "node", v.form.Identity.NodeID)
			continue
		case v.wait != f.said:
			f.said = v.wait
			f.o.Logger.Info("no cluster yet", "reason", v.wait)
		}
		if err := pause(ctx, f.o.Clock, roundPause); err != nil {
			return Membership{}, err
		}
	}
}

// pause waits; it is over early when ctx is.
func pause(ctx context.Context, c clock.Clock, d time.Duration) error {
	over := make(chan struct{})
	t := c.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call is CallAddr with a bound.
func (f *Founding) call(ctx context.Context, d time.Duration, addr string, method uint16, body []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := f.o.Clock.AfterFunc(d, cancel)
	defer t.Stop()
	return f.o.Transport.CallAddr(ctx, addr, method, body)
}

// ask gets the cards of all seeds at once.
func (f *Founding) ask(ctx context.Context) map[string]card {
	var mu sync.Mutex
	heard := make(map[string]card)
	var wg sync.WaitGroup
	for _, addr := range f.o.Seeds {
		wg.Go(func() {
			b, err := f.call(ctx, roundTimeout, addr, MethodFound, nil)
			if err != nil {
				return
			}
			c, err := decodeCard(b)
			if err != nil {
				f.o.Logger.Warn("a seed does not say what it is", "seed", addr, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			heard[addr] = c
		})
	}
	wg.Wait()
	return heard
}

// joining is what a broker without a number asks with.
type joining struct {
	V           int               `json:"v"`
	Directory   string            `json:"directory"`
	Node        kafkaproto.NodeID `json:"node"` // that it asks for; -1: any
	Wants       string            `json:"wants,omitempty"`
	Peer        string            `json:"peer,omitempty"`
	Rack        string            `json:"rack,omitempty"`
	Endpoints   []meta.Endpoint   `json:"endpoints,omitempty"`
	Incarnation uint64            `json:"incarnation,omitempty"`
}

// joined answers it.
type joined struct {
	V         int               `json:"v"`
	ClusterID string            `json:"cluster"`
	Node      kafkaproto.NodeID `json:"node"`
	Founders  []Founder         `json:"founders"`
	Contacts  []Founder         `json:"contacts,omitempty"`
}

// join asks the seeds, one after the other, to be registered; nil when none can do it now.
func (f *Founding) join(ctx context.Context, seeds []string) (*Membership, error) {
	own := f.mu.machine.own
	body, err := json.Marshal(joining{V: 1, Directory: own.Directory, Node: own.Node, Wants: own.Wants, Peer: f.o.Peer,
		Rack: f.o.Rack, Endpoints: f.o.Endpoints, Incarnation: f.o.Incarnation})
	if err != nil {
		return nil, err
	}
	for _, addr := range seeds {
		out, err := f.call(ctx, joinTimeout, addr, MethodJoin, body)
		if err == nil {
			var j joined
			if j, err = decodeJoined(out); err == nil {
				return &Membership{Identity: Identity{ClusterID: j.ClusterID, NodeID: j.Node, Directory: own.Directory},
					Founders: j.Founders, Contacts: j.Contacts}, nil
			}
		}
		for _, final := range []*kerr.Error{kerr.DuplicateBrokerRegistration, kerr.InvalidRegistration,
			kerr.UnsupportedVersion, kerr.InconsistentClusterID, kerr.InvalidRequest} {
			if errors.Is(err, final) {
				return nil, fmt.Errorf("join the cluster of %s: %w", addr, err)
			}
		}
		f.o.Logger.Info("a seed cannot register this broker now", "seed", addr, "error", err)
	}
	return nil, nil
}

func decodeJoined(b []byte) (joined, error) {
	var j joined
	if err := json.Unmarshal(b, &j); err != nil {
		return j, kafkaproto.Corruptf("answer to a join: %w", err)
	}
	if _, err := kafkaproto.ParseTopicID(j.ClusterID); err != nil || j.V != 1 || j.Node < 0 {
		return j, kafkaproto.Corruptf("answer to a join: version %d, cluster %.40q, node %d", j.V, j.ClusterID, j.Node)
	}
	return j, checkFounders(j.Founders)
}

// join registers a broker without a number (MethodJoin).
func (r *replicated) join(body []byte) ([]byte, error) {
	var j joining
	if err := json.Unmarshal(body, &j); err != nil {
		return nil, kafkaproto.Corruptf("wish to join: %w", err)
	}
	m := r.g.Membership
	switch _, err := kafkaproto.ParseTopicID(j.Directory); {
	case j.V != 1:
		return nil, kafkaproto.Faultf(kerr.UnsupportedVersion, "wish to join of version %d", j.V)
	case err != nil:
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "%v", err)
	case j.Wants != "" && j.Wants != m.Identity.ClusterID:
		return nil, kafkaproto.Faultf(kerr.InconsistentClusterID, "this is cluster %s, not %s", m.Identity.ClusterID, j.Wants)
	}
	res, err := Call[meta.BrokerRegistered](r.c, meta.RegisterBroker{ID: j.Node, Directory: j.Directory, Rack: j.Rack,
		Endpoints: j.Endpoints, Peer: j.Peer, Incarnation: j.Incarnation})
	if err != nil {
		return nil, err
	}
	out := joined{V: 1, ClusterID: m.Identity.ClusterID, Node: res.ID, Founders: m.Founders}
	for _, n := range r.c.Image().Nodes() {
		if n.ID != res.ID {
			out.Contacts = append(out.Contacts, Founder{Directory: n.Directory, Node: n.ID, Peer: n.Peer})
		}
	}
	slices.SortFunc(out.Contacts, func(a, b Founder) int { return int(a.Node) - int(b.Node) })
	return json.Marshal(out)
}

var _ Caller = (*transport.TCP)(nil)
