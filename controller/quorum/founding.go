package quorum

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// card is what a broker says of itself to whoever looks for a cluster.
type card struct {
	V         int               `json:"v"`
	Directory string            `json:"directory"`
	Seeds     []string          `json:"seeds,omitempty"` // as it was given them, sorted
	Node      kafkaproto.NodeID `json:"node"`            // that it asks for, or has; -1: any
	Wants     string            `json:"wants,omitempty"` // the cluster id that it asks for
	// Promise is the digest of the founders that it has agreed to; one at a time.
	Promise string `json:"promise,omitempty"`
	// ClusterID and Founders are of a member.
	ClusterID string    `json:"cluster,omitempty"`
	Founders  []Founder `json:"founders,omitempty"`
}

func (c card) encode() ([]byte, error) {
	c.V = 1
	return json.Marshal(c)
}

func decodeCard(b []byte) (card, error) {
	var c card
	if err := json.Unmarshal(b, &c); err != nil {
		return card{}, kafkaproto.Corruptf("card: %w", err)
	}
	if c.V != 1 {
		return card{}, kafkaproto.Faultf(kerr.UnsupportedVersion, "card of version %d", c.V)
	}
	if _, err := kafkaproto.ParseTopicID(c.Directory); err != nil || c.Node < -1 || len(c.Seeds) > maxSeeds {
		return card{}, kafkaproto.Corruptf("card of directory %.40q, node %d, %d seeds", c.Directory, c.Node, len(c.Seeds))
	}
	if c.ClusterID != "" {
		if _, err := kafkaproto.ParseTopicID(c.ClusterID); err != nil {
			return card{}, kafkaproto.Corruptf("%w", err)
		}
		return c, checkFounders(c.Founders)
	}
	return c, nil
}

const maxSeeds = 100

// SeedsOf gives the seeds: those asked for, or those of a Kafka configuration, sorted, each once.
func SeedsOf(asked []string, s *config.Static) []string {
	for _, key := range []string{"controller.quorum.voters", "controller.quorum.bootstrap.servers"} {
		if len(asked) == 0 {
			asked = strings.Split(s.Get(key), ",")
		}
		asked = slices.DeleteFunc(slices.Clone(asked), func(a string) bool { return strings.TrimSpace(a) == "" })
	}
	var seeds []string
	for _, a := range asked {
		_, addr, ok := strings.Cut(a, "@") // 1@host:port
		if !ok {
			addr = a
		}
		seeds = append(seeds, strings.ToLower(strings.TrimSpace(addr)))
	}
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

// founding is the founders' agreement (replication.md §6), pure. Each broker asks all seeds for their
// cards, round by round:
//
//	a seed is a member of a cluster ──► that named this one a founder: adopt; else join
//	all seeds answer, none is a member, all were given the same seeds ──► promise these founders
//	all have promised the same founders ──► form: decided, durable before raft starts
//
// Whoever decides has seen the promise of every founder, each of whom promises one set at a time and
// shows the decision afterwards: no two brokers that keep their disks decide differently. Cluster id and
// numbers derive from the founders, so that they need not be agreed upon. A broker that is no seed waits
// for a cluster to join.
type founding struct {
	own   card
	heard map[string]card // by seed's address, of this round
}

// verdict is what a round came to.
type verdict struct {
	form *Membership // the founders are agreed, or named this broker one of them
	join []string    // seeds that are members of the cluster to join
	wait string      // nothing yet, and why
	err  error       // never, unless something is configured otherwise
}

// judge looks at the cards of a round.
func (f *founding) judge() verdict {
	if v, ok := f.member(); ok {
		return v
	}
	var founders []Founder
	me := ""
	for _, addr := range f.own.Seeds {
		c, ok := f.heard[addr]
		switch {
		case !ok:
			return verdict{wait: fmt.Sprintf("seed %s does not answer", addr)}
		case !slices.Equal(c.Seeds, f.own.Seeds):
			return verdict{wait: fmt.Sprintf("seed %s was given the seeds %s, this broker %s", addr,
				strings.Join(c.Seeds, ","), strings.Join(f.own.Seeds, ","))}
		case c.Wants != f.own.Wants:
			return verdict{err: fmt.Errorf("seed %s asks for the cluster id %q, this broker for %q", addr, c.Wants, f.own.Wants)}
		}
		if c.Directory == f.own.Directory {
			me = addr
		}
		if at := slices.IndexFunc(founders, func(o Founder) bool { return o.Directory == c.Directory }); at >= 0 {
			return verdict{err: fmt.Errorf("the seeds %s and %s are the same broker", founders[at].Peer, addr)}
		}
		founders = append(founders, Founder{Directory: c.Directory, Node: c.Node, Peer: addr})
	}
	if me == "" {
		return verdict{wait: "none of the seeds is this broker, and none has a cluster yet"}
	}
	if err := number(founders); err != nil {
		return verdict{err: err}
	}
	digest := digestOf(founders)
	f.own.Promise = digest
	for addr, c := range f.heard {
		if c.Promise != digest && addr != me {
			return verdict{wait: fmt.Sprintf("seed %s has not agreed yet", addr)}
		}
	}
	return verdict{form: f.membership(cmp.Or(f.own.Wants, clusterOf(digest)), founders)}
}

// member looks for seeds that have a cluster.
func (f *founding) member() (verdict, bool) {
	var v verdict
	id := ""
	for _, addr := range f.own.Seeds {
		c := f.heard[addr]
		switch {
		case c.ClusterID == "":
			continue
		case id != "" && id != c.ClusterID:
			return verdict{err: fmt.Errorf("the seeds belong to different clusters: %s and %s", id, c.ClusterID)}, true
		case f.own.Wants != "" && f.own.Wants != c.ClusterID:
			return verdict{err: fmt.Errorf("seed %s belongs to cluster %s, but sluice.cluster.id asks for %s", addr,
				c.ClusterID, f.own.Wants)}, true
		}
		id = c.ClusterID
		v.join = append(v.join, addr)
		if slices.ContainsFunc(c.Founders, func(o Founder) bool { return o.Directory == f.own.Directory }) {
			v.form = f.membership(id, c.Founders)
		}
	}
	return v, id != ""
}

func (f *founding) membership(cluster string, founders []Founder) *Membership {
	m := &Membership{Identity: Identity{ClusterID: cluster, Directory: f.own.Directory}, Founders: founders}
	for _, o := range founders {
		if o.Directory == f.own.Directory {
			m.Identity.NodeID = o.Node
		}
	}
	return m
}

// number gives founders that ask for no number the smallest free ones, in the order of the seeds, and
// sorts them by number.
func number(founders []Founder) error {
	taken := make(map[kafkaproto.NodeID]string)
	for _, o := range founders {
		if o.Node >= 0 && taken[o.Node] != "" {
			return fmt.Errorf("the seeds %s and %s both ask for node.id %d", taken[o.Node], o.Peer, o.Node)
		}
		if o.Node >= 0 {
			taken[o.Node] = o.Peer
		}
	}
	next := kafkaproto.NodeID(1)
	for i := range founders {
		if founders[i].Node >= 0 {
			continue
		}
		for taken[next] != "" {
			next++
		}
		founders[i].Node = next
		taken[next] = founders[i].Peer
	}
	slices.SortFunc(founders, func(a, b Founder) int { return cmp.Compare(a.Node, b.Node) })
	return nil
}

func digestOf(founders []Founder) string {
	h := sha256.New()
	for _, o := range founders {
		fmt.Fprintf(h, "%s %d %s\n", o.Directory, o.Node, o.Peer)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// clusterOf derives a cluster's id, in the form that one that is drawn has.
func clusterOf(digest string) string {
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "cluster %s %d", digest, n))
		id := kafkaproto.TopicID(sum[:16])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if s := id.String(); s[0] != '-' {
			return s
		}
	}
}
