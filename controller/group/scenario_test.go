package group

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into the scenario files")

// TestScenarios replays testdata/*.txt: commands, each with what must come of it. A reader of a
// changed file sees in the diff what changed for clients.
//
// A command is a word and key=value arguments; lines under "----" are the answers that came out
// with it, from it or from earlier commands that were waiting. "as=x" names the answer.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScenario(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("answers differ (run with -rewrite and read the diff):\n%s", firstDiff(string(raw),
					got))
			}
		})
	}
}

func firstDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			lo := max(0, i-6)
			return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1,
				strings.Join(w[lo:min(len(w), i+3)], "\n"), strings.Join(g[lo:min(len(g), i+3)], "\n"))
		}
	}
	return "more answers than expected"
}

func runScenario(t *testing.T, file string) string {
	s := &scenario{t: t, w: newWorld(), r: newReplies()}
	defer func() { s.w.svc.Close() }()
	var out strings.Builder
	skipping := false
	for _, line := range strings.Split(strings.TrimRight(file, "\n"), "\n") {
		switch {
		case line == "----":
			skipping = true
			continue
		case strings.TrimSpace(line) == "":
			if !skipping {
				out.WriteString("\n")
			}
			skipping = false
			continue
		case skipping:
			continue
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
			continue
		}
		out.WriteString(line + "\n")
		s.run(line)
		if got := s.r.drain(); got != "" {
			fmt.Fprintf(&out, "----\n%s\n\n", got)
		} else {
			out.WriteString("----\n\n")
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// scenario is one file being run.
type scenario struct {
	t *testing.T
	w *world
	r *replies
	a map[string]string // arguments of the command
	n int
}

func (s *scenario) run(line string) {
	words := strings.Fields(line)
	s.a = map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		s.a[k] = v
	}
	cmd, ok := scenarioCommands[words[0]]
	if !ok {
		s.t.Fatalf("no such command: %q", line)
	}
	s.n++
	cmd(s, words[1:])
}

func (s *scenario) str(key, def string) string {
	if v, ok := s.a[key]; ok {
		return v
	}
	return def
}

func (s *scenario) int(key string, def int64) int64 {
	v, ok := s.a[key]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.t.Fatalf("%s=%s: %v", key, v, err)
	}
	return n
}

func (s *scenario) version(def int16) int16 { return int16(s.int("v", int64(def))) }

func (s *scenario) opt(key string) *string {
	v, ok := s.a[key]
	if !ok {
		return nil
	}
	return &v
}

// name is how the answers of the command are marked.
func (s *scenario) name(cmd string) string { return s.str("as", cmd) }

// list splits "a:1,b:2".
func list(v string) [][2]string {
	var out [][2]string
	for _, p := range strings.Split(v, ",") {
		if p == "" {
			continue
		}
		k, val, _ := strings.Cut(p, ":")
		out = append(out, [2]string{k, val})
	}
	return out
}

var scenarioCommands = map[string]func(*scenario, []string){
	"config":        (*scenario).config,
	"topics":        (*scenario).topics,
	"drop-topic":    (*scenario).dropTopic,
	"advance":       (*scenario).advance,
	"crash":         (*scenario).crash,
	"keep-alive":    (*scenario).keepAlive,
	"hold":          (*scenario).hold,
	"commit-log":    (*scenario).commitLog,
	"fail-append":   (*scenario).failAppend,
	"log":           (*scenario).log,
	"join":          (*scenario).join,
	"sync":          (*scenario).sync,
	"heartbeat":     (*scenario).heartbeat,
	"leave":         (*scenario).leave,
	"commit":        (*scenario).commit,
	"txn-commit":    (*scenario).txnCommit,
	"end-txn":       (*scenario).endTxn,
	"fetch":         (*scenario).fetch,
	"describe":      (*scenario).describe,
	"list":          (*scenario).listGroups,
	"delete":        (*scenario).delete,
	"delete-offset": (*scenario).deleteOffsets,
	"stats":         (*scenario).stats,
	"sweep":         (*scenario).sweep,
}

func (s *scenario) config([]string) {
	c := &s.w.cfg
	c.InitialDelayMs = int32(s.int("initial-delay", int64(c.InitialDelayMs)))
	c.MaxSize = int(s.int("max-size", int64(c.MaxSize)))
	c.MaxGroupRecordBytes = int(s.int("max-record", int64(c.MaxGroupRecordBytes)))
	c.MaxPendingPerGroup = int(s.int("max-pending", int64(c.MaxPendingPerGroup)))
	s.w.ensureErr = nil
	if s.str("ensure", "") == "fails" {
		s.w.ensureErr = fmt.Errorf("no space")
	}
	s.w.crash(true)
}

func (s *scenario) topics(words []string) {
	for _, w := range words {
		name, n, _ := strings.Cut(w, "=")
		count, _ := strconv.Atoi(n)
		s.w.addTopic(name, int32(count))
	}
}

func (s *scenario) dropTopic(words []string) {
	id := s.w.dropTopic(words[0])
	if s.str("event", "yes") == "yes" {
		s.w.svc.TopicDeleted(words[0], id)
	}
}

func (s *scenario) sweep([]string) { s.w.svc.Sweep(s.w.topics) }

func (s *scenario) advance(words []string) {
	d, err := time.ParseDuration(words[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.w.clock.Advance(d)
}

// keepAlive sends heartbeats every 25 minutes while the clock goes on; members is a list of
// group:member pairs of generation 1.
func (s *scenario) keepAlive(words []string) {
	total, err := time.ParseDuration(s.str("for", ""))
	if err != nil {
		s.t.Fatal(err)
	}
	for ; total > 0; total -= 25 * time.Minute {
		for _, p := range list(s.str("members", "")) {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = p[0], s.r.id(p[1]), 1
			s.w.svc.Heartbeat(req, func(r *kmsg.HeartbeatResponse) {
				if r.ErrorCode != 0 {
					s.t.Fatalf("heartbeat of %v: %s", p, code(r.ErrorCode))
				}
			})
		}
		s.w.clock.Advance(min(total, 25*time.Minute))
	}
}

func (s *scenario) crash([]string) { s.w.crash(s.str("keep", "written") == "written") }

// hold keeps appends uncommitted until commit-log.
func (s *scenario) hold([]string) {
	s.w.auto = false
	for p := range int32(testShards) {
		s.w.log(p).Auto(false)
	}
}

func (s *scenario) commitLog([]string) {
	for p := range int32(testShards) {
		s.w.log(p).Commit()
	}
}

func (s *scenario) failAppend(words []string) {
	s.w.log(PartitionOf(words[0], testShards)).Fail(errDisk)
}

func (s *scenario) log([]string) {
	for _, l := range s.w.showLog() {
		s.r.add("%s", l)
	}
}

// bytes reads opaque bytes; "x*500" is 500 of them.
func (s *scenario) bytes(v string) []byte {
	c, n, ok := strings.Cut(v, "*")
	if !ok {
		return []byte(v)
	}
	count, err := strconv.Atoi(n)
	if err != nil {
		s.t.Fatal(err)
	}
	return []byte(strings.Repeat(c, count))
}

func (s *scenario) join([]string) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = s.version(9)
	req.Group = s.str("group", "g")
	req.MemberID = s.r.id(s.str("member", ""))
	req.InstanceID = s.opt("instance")
	req.SessionTimeoutMillis = int32(s.int("session", 10_000))
	req.RebalanceTimeoutMillis = int32(s.int("rebalance", 60_000))
	req.ProtocolType = s.str("type", "consumer")
	for _, p := range list(s.str("protocols", "range:meta")) {
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = p[0], s.bytes(p[1])
		if topics, ok := strings.CutPrefix(p[1], "topics/"); ok {
			rp.Metadata = subscribe(strings.Split(topics, "/")...)
		}
		req.Protocols = append(req.Protocols, rp)
	}
	name, client, before := s.name("join"), s.str("client", "c"), s.w.random.n
	s.w.svc.Join(Client{ID: client, Host: "/127.0.0.1"}, req, func(r *kmsg.JoinGroupResponse) {
		s.r.add("%s: %s", name, showJoin(r))
	})
	if s.w.random.n > before {
		s.r.drawn(s.str("instance", client), s.w.random.n)
	}
}

func (s *scenario) sync([]string) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = s.version(5)
	req.Group = s.str("group", "g")
	req.MemberID = s.r.id(s.str("member", ""))
	req.InstanceID = s.opt("instance")
	req.Generation = int32(s.int("gen", 1))
	if req.Version >= 5 {
		typ, proto := s.str("type", "consumer"), s.str("protocol", "range")
		req.ProtocolType, req.Protocol = &typ, &proto
		if _, ok := s.a["no-protocol"]; ok {
			req.ProtocolType, req.Protocol = nil, nil
		}
	}
	for _, p := range list(s.str("assign", "")) {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = s.r.id(p[0]), s.bytes(p[1])
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	name := s.name("sync")
	s.w.svc.Sync(req, func(r *kmsg.SyncGroupResponse) { s.r.add("%s: %s", name, showSync(r)) })
}

func (s *scenario) heartbeat([]string) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = s.version(4)
	req.Group, req.MemberID = s.str("group", "g"), s.r.id(s.str("member", ""))
	req.InstanceID, req.Generation = s.opt("instance"), int32(s.int("gen", 1))
	name := s.name("heartbeat")
	s.w.svc.Heartbeat(req, func(r *kmsg.HeartbeatResponse) {
		s.r.add("%s: %s", name,
			code(r.ErrorCode))
	})
}

func (s *scenario) leave([]string) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = s.version(5)
	req.Group, req.MemberID = s.str("group", "g"), s.r.id(s.str("member", ""))
	for _, p := range list(s.str("members", "")) {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = s.r.id(p[0])
		if p[1] != "" {
			m.InstanceID = &p[1]
		}
		req.Members = append(req.Members, m)
	}
	name := s.name("leave")
	s.w.svc.Leave(req, func(r *kmsg.LeaveGroupResponse) {
		line := code(r.ErrorCode)
		for _, m := range r.Members {
			line += fmt.Sprintf(" %s/%s:%s", m.MemberID, text(m.InstanceID), code(m.ErrorCode))
		}
		s.r.add("%s: %s", name, line)
	})
}

// offsetsOf reads "t-0:5,t-1:7"; an id as in "id3-0:5" names a topic by it.
func offsetsOf(v string) (out []struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
}) {
	for _, p := range list(v) {
		i := strings.LastIndex(p[0], "-")
		n, _ := strconv.Atoi(p[0][i+1:])
		off, _ := strconv.ParseInt(p[1], 10, 64)
		e := struct {
			topic     string
			id        [16]byte
			partition int32
			offset    int64
		}{p[0][:i], [16]byte{}, int32(n), off}
		if k, ok := strings.CutPrefix(e.topic, "id"); ok {
			num, _ := strconv.Atoi(k)
			e.id = [16]byte{0: 't', 15: byte(num)}
		}
		out = append(out, e)
	}
	return out
}

func (s *scenario) commit([]string) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = s.version(9)
	req.Group, req.MemberID = s.str("group", "g"), s.r.id(s.str("member", ""))
	req.InstanceID, req.Generation = s.opt("instance"), int32(s.int("gen", -1))
	req.RetentionTimeMillis = s.int("retention", -1)
	for _, o := range offsetsOf(s.str("offsets", "")) {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = o.topic, o.id
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = o.partition, o.offset, int32(s.int("epoch", -1))
		p.Metadata = s.opt("metadata")
		if n := s.int("metadata-size", 0); n > 0 {
			long := strings.Repeat("x", int(n))
			p.Metadata = &long
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	name := s.name("commit")
	s.w.svc.OffsetCommit(req, func(r *kmsg.OffsetCommitResponse) {
		line := ""
		for _, t := range r.Topics {
			topic := t.Topic
			if req.Version >= 10 {
				topic = fmt.Sprintf("id%d", t.TopicID[15])
			}
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %s-%d:%s", topic, p.Partition, code(p.ErrorCode))
			}
		}
		s.r.add("%s:%s", name, line)
	})
}

func (s *scenario) txnCommit([]string) {
	group := s.str("group", "g")
	in := &commitInput{
		version: 3, group: group, member: s.r.id(s.str("member", "")),
		generation: int32(s.int("gen", -1)), retention: -1,
		producer: &coord.Producer{ID: kafkaproto.ProducerID(s.int("producer", 1))},
	}
	for _, o := range offsetsOf(s.str("offsets", "")) {
		id, _, _ := s.w.topics.Topic(o.topic)
		in.partitions = append(in.partitions, commitPartition{
			topic: o.topic, topicID: id, partition: o.partition, offset: kafkaproto.Offset(o.offset),
			epoch: -1,
		})
	}
	s.w.svc.rt.Submit(PartitionOf(group, testShards), in, func(out any, err error) {
		s.r.add("txn-commit: %v %v", out, err)
	})
}

func (s *scenario) endTxn([]string) {
	in := &endTxnInput{coord.Marker{
		Producer: coord.Producer{ID: kafkaproto.ProducerID(s.int("producer", 1))},
		Commit:   s.str("commit", "yes") == "yes",
	}}
	s.w.svc.rt.Submit(PartitionOf(s.str("group", "g"), testShards), in, func(out any, err error) {
		s.r.add("end-txn: %v %v", out, err)
	})
}

func (s *scenario) fetch([]string) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = s.version(8)
	req.RequireStable = s.str("stable", "no") == "yes"
	for _, group := range strings.Split(s.str("group", "g"), ",") {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		for _, o := range offsetsOf(s.str("offsets", "")) {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.TopicID, t.Partitions = o.topic, o.id, []int32{o.partition}
			g.Topics = append(g.Topics, t)
		}
		req.Groups = append(req.Groups, g)
	}
	if req.Version < 8 {
		req.Group = req.Groups[0].Group
		for _, t := range req.Groups[0].Topics {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = t.Topic, t.Partitions
			req.Topics = append(req.Topics, rt)
		}
		req.Groups = nil
	}
	name := s.name("fetch")
	s.w.svc.OffsetFetch(req, func(r *kmsg.OffsetFetchResponse) {
		r.Version = req.Version
		s.r.add("%s: %s", name, showFetch(r))
	})
}

func (s *scenario) describe([]string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = s.version(6)
	req.Groups = strings.Split(s.str("group", "g"), ",")
	s.w.svc.Describe(req, func(r *kmsg.DescribeGroupsResponse) {
		for i := range r.Groups {
			s.r.add("%s", showDescribe(&r.Groups[i]))
		}
	})
}

func (s *scenario) listGroups([]string) {
	req := kmsg.NewPtrListGroupsRequest()
	req.Version = s.version(5)
	for _, p := range list(s.str("states", "")) {
		req.StatesFilter = append(req.StatesFilter, p[0])
	}
	for _, p := range list(s.str("types", "")) {
		req.TypesFilter = append(req.TypesFilter, p[0])
	}
	s.w.svc.List(req, func(r *kmsg.ListGroupsResponse) {
		s.r.add("list: %s", code(r.ErrorCode))
		for _, g := range r.Groups {
			s.r.add("  %s %s %s %s", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
		}
	})
}

func (s *scenario) delete([]string) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version = 3
	req.Groups = strings.Split(s.str("group", "g"), ",")
	s.w.svc.Delete(req, func(r *kmsg.DeleteGroupsResponse) {
		for _, g := range r.Groups {
			s.r.add("delete: %s %s %s", g.Group, code(g.ErrorCode), text(g.ErrorMessage))
		}
	})
}

func (s *scenario) deleteOffsets([]string) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = s.str("group", "g")
	for _, o := range offsetsOf(s.str("offsets", "")) {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = o.topic
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = o.partition
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	s.w.svc.OffsetDelete(req, func(r *kmsg.OffsetDeleteResponse) {
		line := code(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %s-%d:%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		s.r.add("delete-offset: %s", line)
	})
}

func (s *scenario) stats([]string) {
	s.w.svc.Stats(func(gs []GroupStats) {
		for _, g := range gs {
			line := fmt.Sprintf("%s %s %q members=%d", g.Group, g.State, g.Protocol, g.Members)
			for _, o := range g.Offsets {
				line += fmt.Sprintf(" %s-%d=%d at %d", o.Topic, o.Partition, o.Offset, o.Committed)
			}
			s.r.add("%s", line)
		}
	})
}
