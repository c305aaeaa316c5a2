package quorum

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/transport"
)

// membershipFile lies beside meta.properties in the directory of a broker that has peers. It is written
// first: a directory with meta.properties alone is one that ran without peers.
const membershipFile = "quorum.json"

// Founder is a broker with which the metadata's log began, or one that a joining broker was told of.
type Founder struct {
	Directory string            `json:"directory"`
	Node      kafkaproto.NodeID `json:"node"`
	Peer      string            `json:"peer,omitempty"` // host:port for other brokers; "": not known
}

// Membership is what a broker must know of its cluster before it has read any metadata.
type Membership struct {
	Identity Identity
	// Founders are those with whom the log began, by number; the first of them, 1, 3 or 5, were the
	// voters. All replicas derive the group's first configuration from it.
	Founders []Founder
	// Contacts are other brokers that there were when this one joined.
	Contacts []Founder
}

// membershipForm is the file.
type membershipForm struct {
	Version   int               `json:"version"`
	Directory string            `json:"directory"`
	ClusterID string            `json:"cluster,omitempty"` // "" while the broker is not a member yet
	Node      kafkaproto.NodeID `json:"node"`
	Founders  []Founder         `json:"founders,omitempty"`
	Contacts  []Founder         `json:"contacts,omitempty"`
}

// replicas are the brokers that are known, and where they are.
func (m Membership) replicas() ([]engine.Replica, map[kafkaproto.NodeID]transport.Peer) {
	var all []engine.Replica
	peers := make(map[kafkaproto.NodeID]transport.Peer)
	for _, f := range slices.Concat(m.Founders, m.Contacts) {
		r := engine.Replica{ID: ReplicaID(f.Directory), Node: f.Node}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
		if f.Peer != "" {
			peers[f.Node] = transport.Peer{Addr: f.Peer}
		}
	}
	return all, peers
}

// Spec is how the engine opens the metadata's partition on this broker.
func (m Membership) Spec(c config.Metadata) engine.Spec {
	id, tp := MetadataPartition()
	s := engine.Spec{ID: id, TP: tp, Config: logConfig(c), Managed: true}
	self := engine.Replica{ID: ReplicaID(m.Identity.Directory), Node: m.Identity.NodeID}
	for i, f := range m.Founders {
		s.Replicas = append(s.Replicas, engine.Replica{
			ID: ReplicaID(f.Directory), Node: f.Node, Learner: i >= voterCount(len(m.Founders)),
		})
	}
	known, _ := m.replicas()
	for _, r := range append(known, self) {
		if !slices.ContainsFunc(s.Replicas, func(o engine.Replica) bool { return o.ID == r.ID }) {
			s.Replicas, s.Adding = append(s.Replicas, r), append(s.Adding, r)
		}
	}
	return s
}

// readMembership reads the file; nil when there is none.
func readMembership(fsys vfs.FS, dir string) (*membershipForm, error) {
	name := path.Join(dir, membershipFile)
	data, err := vfs.ReadFile(fsys, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := parseMembership(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func parseMembership(data []byte) (*membershipForm, error) {
	var f membershipForm
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&f); err != nil {
		return nil, kafkaproto.MarkCorrupt(err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("version %d, and this release knows version 1: %w", f.Version, meta.ErrNewerRelease)
	}
	for _, id := range []string{f.Directory, f.ClusterID} {
		if _, err := kafkaproto.ParseTopicID(id); err != nil && (id != "" || f.Directory == "") {
			return nil, kafkaproto.Corruptf("%w", err)
		}
	}
	if f.ClusterID != "" && (f.Node < 0 || checkFounders(f.Founders) != nil) {
		return nil, kafkaproto.Corruptf("node %d with founders %v", f.Node, f.Founders)
	}
	return &f, nil
}

// checkFounders refuses founders that no agreement makes.
func checkFounders(all []Founder) error {
	for i, f := range all {
		if _, err := kafkaproto.ParseTopicID(f.Directory); err != nil || f.Node < 0 || i > 0 && all[i-1].Node >= f.Node {
			return kafkaproto.Corruptf("founder %d of directory %.40q", f.Node, f.Directory)
		}
	}
	if len(all) == 0 {
		return kafkaproto.Corruptf("no founders")
	}
	return nil
}

func (f membershipForm) write(fsys vfs.FS, dir string) error {
	f.Version = 1
	data, err := json.MarshalIndent(f, "", " ")
	if err == nil {
		err = vfs.WriteFileAtomic(fsys, path.Join(dir, membershipFile), append(data, '\n'))
	}
	return err
}

func (f membershipForm) membership() Membership {
	return Membership{
		Identity: Identity{ClusterID: f.ClusterID, NodeID: f.Node, Directory: f.Directory},
		Founders: f.Founders, Contacts: f.Contacts,
	}
}

// settle makes a membership durable: the decision first, then meta.properties.
func (m Membership) settle(fsys vfs.FS, dir string) error {
	f := membershipForm{Directory: m.Identity.Directory, ClusterID: m.Identity.ClusterID, Node: m.Identity.NodeID,
		Founders: m.Founders, Contacts: m.Contacts}
	if err := f.write(fsys, dir); err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, path.Join(dir, propertiesFile), m.Identity.bytes())
}

// Member reports whether a data directory belongs to a broker that has peers: it is not to be opened
// alone any more.
func Member(fsys vfs.FS, dir string) (bool, error) {
	f, err := readMembership(fsys, dir)
	return f != nil && f.ClusterID != "", err
}

// card is what this broker tells others that look for their cluster.
func (m Membership) card() card {
	return card{Directory: m.Identity.Directory, Node: m.Identity.NodeID, ClusterID: m.Identity.ClusterID,
		Founders: m.Founders}
}
