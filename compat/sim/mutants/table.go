package main

// mutant is one bug: in file, the only place with the text old gets the text new.
type mutant struct {
	name, file, old, new string
}

// rule switches off one of the rules that recovery rests on, by the store's own knob.
func rule(name, knob string) mutant {
	return mutant{name, "log/store/store.go", "	if o.Manual {\n", "	o.knobs.off." + knob + " = true\n	if o.Manual {\n"}
}

// mutants are the bugs that a cluster's log must not have, each of which the simulation should find.
var mutants = []mutant{
	{"acknowledged before the sync", "replica/group/flush.go",
		"	for len(g.waiting) > 0 && g.waiting[0].ticket <= g.durable {", "	for len(g.waiting) > 0 {"},
	{"a leader counts its own write before its sync", "replica/group/flush.go",
		"waiting{ticket: g.last,", "waiting{ticket: map[bool]store.Ticket{false: g.last}[g.role.Leading],"},
	{"term and vote not saved", "replica/group/flush.go",
		"		(hs.Term != g.hard.Term || hs.Vote != g.hard.Vote) {", "		hs.Term < g.hard.Term {"},
	{"vote told before its sync", "replica/group/flush.go", "		g.hard, g.last = hs, t\n", "		g.hard, _ = hs, t\n"},
	rule("R1: side entries not durable before batches", "sideFirst"),
	rule("R2: side entries beyond the prefix are kept", "prefix"),
	rule("R3: a truncation is not durable before what follows", "truncFirst"),
	rule("R3: recovery does not look at truncations", "truncCheck"),
	rule("R4: no reset of a recovered log", "reset"),
	rule("R5: what was found is not synced", "syncFound"),
	rule("recovery does not look at the epoch of batches", "epoch"),
	{"shown before it is committed", "replica/group/flush.go", "	out.HighWatermark, out.Role = g.hw, g.role\n",
		"	out.HighWatermark, out.Role = max(g.hw, g.log.EndOffset()), g.role\n"},
	{"the high watermark one too far", "replica/group/flush.go", "			hw = max(hw, d.Next())\n", "			hw = max(hw, d.Next()+1)\n"},
	{"followers lose changes of the configuration", "replica/group/flush.go", "			g.applyConf(e)\n",
		"			if g.role.Leading {\n				g.applyConf(e)\n			}\n"},
	{"the configuration is not saved", "replica/group/flush.go", "	t, err := g.log.SaveConf(g.confIndex, g.conf)\n",
		"	t, err := g.last, error(nil)\n"},
	{"a move is told as done before it is durable", "replica/engine/reconcile.go", "!r.reported && r.g.ConfDurable():", "!r.reported:"},
	{"the first configuration is what is wanted today", "replica/engine/replicated.go", "	case len(s.First) > 0:", "	case len(s.First) > 1<<10:"},
	{"replica ids of directories are not looked at", "replica/engine/engine.go", "	if was != 0 {\n", "	if was == self {\n"},
	{"a replica given again keeps its id", "replica/engine/engine.go", "p != nil && p.isReplica(s.replicaOn(e.self)) {",
		"p != nil && p.isReplica(0) {"},
	{"who waits is not told of a truncation", "replica/group/group.go",
		"		if g.out.Truncated < 0 || ev.Offset < g.out.Truncated {", "		if g.out.Truncated < -1 {"},
	{"producers are not rolled back", "log/store/replica.go", "	l.prod.state.Truncate(from)\n", "	_ = from\n"},
	{"a snapshot is not synced", "log/store/snapshot_stage.go",
		"	errs := []error{syncFile(fsys, s.name(sidecarName(s.m.Next, sidecarExt))),", "	return nil\n	errs := []error{syncFile(fsys, s.name(sidecarName(s.m.Next, sidecarExt))),"},
	{"any leader is forgotten when a vote is asked for", "replica/engine/quiesce.go", "	if e.isDead(n) {\n		return true", "	if !e.isDead(0) {\n		return true"},
	{"a leader that resigned is not forgotten", "replica/engine/quiesce.go", "	return known && term == epoch && node == n && !live\n",
		"	return known && term == epoch && node == n && !live && false\n"},
	{"a leader sleeps while replicas lag", "replica/engine/quiesce.go", "p.Match != p.LastIndexHere ||\n			p.Commit != p.LastIndexHere ||",
		"false ||"},
	{"min.insync.replicas is not asked", "replica/engine/insync.go", "	if n < need {", "	if n < -need {"},
	{"back to solo with entries that are not committed", "log/store/replica.go",
		"	case commit != l.mu.lastIndex || l.EndOffset() != l.SyncedOffset():", "	case commit > l.mu.lastIndex:"},
	{"a solo partition is opened although it has a configuration", "replica/engine/engine.go", "s.solo() && !l.Replicated():", "s.solo():"},
	{"a deletion is not durable", "log/store/store.go", "	if err := s.journalCommit([]journal.Record{{Group: id, Body: journal.Drop{}}}); err != nil {",
		"	if _, err := s.journal.Append(journal.Record{Group: id, Body: journal.Drop{}}); err != nil {"},
	{"a full disk is tried again only when nobody writes", "replica/engine/replicated.go", "r.ticks%blockedRetry == 0", "r.idle%blockedRetry == 0"},
	{"a removed leader's own late acknowledgement", "replica/group/flush.go", "err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {",
		"errors.Is(err, err) && err != nil {"},
	{"bytes that were cut off are sent", "replica/group/payload.go",
		"got.BaseOffset() != d.Base ||\n			got.LeaderEpoch() != kafkaproto.LeaderEpoch(d.term) {", "got.BaseOffset() != d.Base || got.LeaderEpoch() < kafkaproto.LeaderEpoch(0) {"},
	{"learners vote before they have caught up", "replica/engine/reconcile.go", "	if !r.caughtUp(promote) {", "	if len(promote) > 1<<10 {"},
	{"log starts are taken before they are committed", "log/store/replica.go", "		if side.Index > index {", "		if side.Index > index+1<<10 {"},
}
