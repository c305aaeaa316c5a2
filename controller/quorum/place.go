package quorum

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/engine"
)

// ReplicaID is a data directory's replica of the metadata: a wiped disk has another uuid, and is
// another replica. It is above 0 and below 2^63.
func ReplicaID(directory string) uint64 {
	sum := sha256.Sum256([]byte("sluice metadata replica " + directory))
	return binary.BigEndian.Uint64(sum[:])>>1 | 1
}

// voterCount is how many voters a cluster of n brokers has.
func voterCount(n int) int {
	switch {
	case n >= 5:
		return 5
	case n >= 3:
		return 3
	}
	return 1
}

// replicasOf gives the replicas of the metadata on the registered brokers.
func replicasOf(nodes []*meta.Node) []engine.Replica {
	all := make([]engine.Replica, len(nodes))
	for i, n := range nodes {
		all[i] = engine.Replica{ID: ReplicaID(n.Directory), Node: n.ID}
	}
	return all
}

// placeReplicas says who is to vote and who is to learn: as many voters as voterCount says, with as
// little change as can be. A broker that is fenced or draining stays a voter only where nobody else is
// there; it never becomes one. nil when nothing can be said.
func placeReplicas(nodes []*meta.Node, members engine.Members, self kafkaproto.NodeID) []engine.Replica {
	type candidate struct {
		r           engine.Replica
		well, votes bool
	}
	var all []candidate
	for i, r := range replicasOf(nodes) {
		well := !nodes[i].Fenced && !nodes[i].Draining
		votes := slices.Contains(members.Voters, r.ID)
		all = append(all, candidate{r, well, votes})
	}
	first := func(b bool) int {
		if b {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(first(a.well), first(b.well)),
			cmp.Compare(first(a.r.Node == self && a.votes), first(b.r.Node == self && b.votes)),
			cmp.Compare(first(a.votes), first(b.votes)),
			cmp.Compare(a.r.Node, b.r.Node),
		)
	})
	count := 0
	for _, c := range all[:min(voterCount(len(all)), len(all))] {
		if c.well || c.votes {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	if count%2 == 0 {
		count-- // two of four are no majority
	}
	target := make([]engine.Replica, len(all))
	for i, c := range all {
		target[i] = c.r
		target[i].Learner = i >= count
	}
	slices.SortStableFunc(target, func(a, b engine.Replica) int {
		return cmp.Or(cmp.Compare(first(!a.Learner), first(!b.Learner)), cmp.Compare(a.Node, b.Node))
	})
	return target
}
