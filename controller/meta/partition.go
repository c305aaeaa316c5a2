package meta

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Partition is one partition; its index in Topic.Partitions is its number. It never changes.
type Partition struct {
	// Replicas are, in this order: those wanted, the preferred leader first; those being removed;
	// those whose addition was taken back.
	Replicas []Replica
	// NextReplica is the id that the next replica gets.
	NextReplica uint64
	// First is how many replicas the partition was made with; their ids are 1 to First. The raft group's
	// log begins with them, whatever has become of them since.
	First uint64
	// Version counts the changes of the replicas, from 1: Kafka's partition epoch.
	Version int64
}

// Replica is one incarnation of a partition on a broker. A broker may delete its data only when a
// committed record has taken the replica's id out of the partition, or deleted the topic.
type Replica struct {
	// ID is the replica's id in the partition's raft group; from 1, never used again in the partition.
	ID    uint64
	Node  kafkaproto.NodeID
	State ReplicaState
}

// ReplicaState is how a replica stands to the assignment that is wanted.
type ReplicaState int8

const (
	// ReplicaActive is a voter, and wanted.
	ReplicaActive ReplicaState = iota
	// ReplicaAdding is wanted; the leader makes it a learner, lets it catch up, makes it a voter.
	ReplicaAdding
	// ReplicaRemoving is a voter until the leader has replaced it.
	ReplicaRemoving
	// ReplicaCancelled was being added when the reassignment was taken back or changed. The leader may
	// have made it a voter meanwhile, so that it stays until the leader has taken it out. Kafka's
	// clients are not told of it.
	ReplicaCancelled
)

var stateNames = [...]string{"ACTIVE", "ADDING", "REMOVING", "CANCELLED"}

// String gives the state's name: ACTIVE, ADDING, REMOVING, CANCELLED.
func (s ReplicaState) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("STATE_%d", int8(s))
	}
	return stateNames[s]
}

// MarshalText spells the state.
func (s ReplicaState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the spelling.
func (s *ReplicaState) UnmarshalText(text []byte) error {
	at := slices.Index(stateNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("replica state %.20q", text)
	}
	*s = ReplicaState(at)
	return nil
}

// Wanted reports whether the replica is part of the assignment that is wanted.
func (s ReplicaState) Wanted() bool { return s == ReplicaActive || s == ReplicaAdding }

// newPartition is a partition as it is made: replica ids from 1 on, in order.
func newPartition(brokers []kafkaproto.NodeID) Partition {
	p := Partition{NextReplica: uint64(len(brokers)) + 1, First: uint64(len(brokers)), Version: 1}
	p.Replicas = make([]Replica, len(brokers))
	for n, b := range brokers {
		p.Replicas[n] = Replica{ID: uint64(n) + 1, Node: b}
	}
	return p
}

// Leader is the preferred leader.
func (p Partition) Leader() kafkaproto.NodeID { return p.Replicas[0].Node }

func (p Partition) nodes(keep func(ReplicaState) bool) []kafkaproto.NodeID {
	all := make([]kafkaproto.NodeID, 0, len(p.Replicas))
	for _, r := range p.Replicas {
		if keep(r.State) {
			all = append(all, r.Node)
		}
	}
	return all
}

// Nodes are the brokers that Kafka's clients see as replicas: wanted ones, then those being removed.
func (p Partition) Nodes() []kafkaproto.NodeID {
	return p.nodes(func(s ReplicaState) bool { return s != ReplicaCancelled })
}

// Target are the brokers that are wanted, the preferred leader first.
func (p Partition) Target() []kafkaproto.NodeID { return p.nodes(ReplicaState.Wanted) }

// Adding are the brokers that are being added (KIP-455).
func (p Partition) Adding() []kafkaproto.NodeID {
	return p.nodes(func(s ReplicaState) bool { return s == ReplicaAdding })
}

// Removing are the brokers that are being removed (KIP-455).
func (p Partition) Removing() []kafkaproto.NodeID {
	return p.nodes(func(s ReplicaState) bool { return s == ReplicaRemoving })
}

// Reassigning reports whether a reassignment is under way as Kafka understands it: one that can be
// cancelled.
func (p Partition) Reassigning() bool {
	return slices.ContainsFunc(p.Replicas, func(r Replica) bool {
		return r.State == ReplicaAdding || r.State == ReplicaRemoving
	})
}

// Settled reports whether the leader has nothing to do.
func (p Partition) Settled() bool {
	return !slices.ContainsFunc(p.Replicas, func(r Replica) bool { return r.State != ReplicaActive })
}

// ReplicaOn finds the replica on a broker.
func (p Partition) ReplicaOn(n kafkaproto.NodeID) (Replica, bool) {
	for _, r := range p.Replicas {
		if r.Node == n {
			return r, true
		}
	}
	return Replica{}, false
}

// retarget gives the partition when other brokers are wanted. A replica that is there keeps its id,
// whatever was planned for it; ok is false when nothing changes.
func (p Partition) retarget(target []kafkaproto.NodeID) (next Partition, ok bool) {
	next = Partition{NextReplica: p.NextReplica, First: p.First, Version: p.Version + 1}
	for _, n := range target {
		r, there := p.ReplicaOn(n)
		switch {
		case !there:
			r = Replica{ID: next.NextReplica, Node: n, State: ReplicaAdding}
			next.NextReplica++
		case r.State == ReplicaRemoving:
			r.State = ReplicaActive
		case r.State == ReplicaCancelled:
			r.State = ReplicaAdding
		}
		next.Replicas = append(next.Replicas, r)
	}
	for _, gone := range [...]ReplicaState{ReplicaRemoving, ReplicaCancelled} {
		for _, r := range p.Replicas {
			if slices.Contains(target, r.Node) {
				continue
			}
			if r.State == ReplicaActive {
				r.State = ReplicaRemoving
			} else if r.State == ReplicaAdding {
				r.State = ReplicaCancelled
			}
			if r.State == gone {
				next.Replicas = append(next.Replicas, r)
			}
		}
	}
	return next, !slices.Equal(next.Replicas, p.Replicas)
}

// reverted are the brokers that were wanted before the reassignment under way.
func (p Partition) reverted() []kafkaproto.NodeID {
	return p.nodes(func(s ReplicaState) bool { return s == ReplicaActive || s == ReplicaRemoving })
}

// maxReplicas is more than any partition has; it bounds what a damaged record costs.
const maxReplicas = 1 << 10

// check refuses what no command makes.
func (p Partition) check() error {
	if len(p.Replicas) == 0 || len(p.Replicas) > maxReplicas {
		return fmt.Errorf("no replica, or %d", len(p.Replicas))
	}
	data := false
	for at, r := range p.Replicas {
		if r.Node < 0 || r.ID == 0 || r.ID >= p.NextReplica || r.State < 0 || r.State > ReplicaCancelled {
			return fmt.Errorf("replica %d on broker %d, %s, next %d", r.ID, r.Node, r.State, p.NextReplica)
		}
		for _, o := range p.Replicas[:at] {
			if o.ID == r.ID || o.Node == r.Node {
				return fmt.Errorf("replica %d on broker %d stands there twice", r.ID, r.Node)
			}
			if rank(o.State) > rank(r.State) {
				return fmt.Errorf("replica %d, %s, stands behind %s", r.ID, r.State, o.State)
			}
		}
		data = data || r.State == ReplicaActive || r.State == ReplicaRemoving
	}
	switch {
	case !p.Replicas[0].State.Wanted() || !data:
		return fmt.Errorf("no replica is wanted, or none holds data")
	case p.Version < 1:
		return fmt.Errorf("partition version %d", p.Version)
	}
	return nil
}

// rank is the place of a state in the order of Partition.Replicas.
func rank(s ReplicaState) int { return max(int(s), int(ReplicaAdding)) }

// follows refuses a state that no command makes out of p: one that is not the next (M3), or that
// uses a replica id again (M7).
func (p Partition) follows(next Partition) error {
	if next.Version != p.Version+1 || next.NextReplica < p.NextReplica {
		return fmt.Errorf("the partition is at version %d and replica %d, the record makes %d and %d",
			p.Version, p.NextReplica, next.Version, next.NextReplica)
	}
	for _, r := range next.Replicas {
		old := slices.IndexFunc(p.Replicas, func(o Replica) bool { return o.ID == r.ID })
		if old < 0 && r.ID < p.NextReplica || old >= 0 && p.Replicas[old].Node != r.Node {
			return fmt.Errorf("replica id %d is used again, on broker %d", r.ID, r.Node)
		}
	}
	return next.check()
}

// partitionForm is a partition in JSON that is not as it was made.
type partitionForm struct {
	Version     int64         `json:"partitionVersion"`
	NextReplica uint64        `json:"nextReplicaId"`
	First       uint64        `json:"firstReplicas"`
	Replicas    []replicaForm `json:"replicas"`
}

type replicaForm struct {
	ID    uint64            `json:"replicaId"`
	Node  kafkaproto.NodeID `json:"brokerId"`
	State ReplicaState      `json:"state,omitempty"` // ACTIVE is left out
}

// MarshalJSON gives [1,2,3], the brokers, for a partition as it was made, and all there is to say
// for another.
func (p Partition) MarshalJSON() ([]byte, error) {
	brokers := p.nodes(func(ReplicaState) bool { return true })
	made := newPartition(brokers)
	if p.Version == made.Version && p.NextReplica == made.NextReplica && p.First == made.First &&
		slices.Equal(p.Replicas, made.Replicas) {
		return json.Marshal(brokers)
	}
	form := partitionForm{Version: p.Version, NextReplica: p.NextReplica, First: p.First, Replicas: []replicaForm{}}
	for _, r := range p.Replicas {
		form.Replicas = append(form.Replicas, replicaForm(r))
	}
	return json.Marshal(form)
}

// UnmarshalJSON reads either form.
func (p *Partition) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var brokers []kafkaproto.NodeID
		if err := json.Unmarshal(b, &brokers); err != nil {
			return err
		}
		*p = newPartition(brokers)
		return nil
	}
	var form partitionForm
	if err := unmarshal(b, &form); err != nil {
		return err
	}
	*p = Partition{Version: form.Version, NextReplica: form.NextReplica, First: form.First}
	for _, r := range form.Replicas {
		p.Replicas = append(p.Replicas, Replica(r))
	}
	return nil
}
