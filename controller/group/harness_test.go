package group

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/coord/coordtest"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// image is a Topics for tests.
type image map[string]imageTopic

type imageTopic struct {
	id         kafkaproto.TopicID
	partitions int32
}

func (i image) Topic(name string) (kafkaproto.TopicID, int32, bool) {
	t, ok := i[name]
	return t.id, t.partitions, ok
}

func (i image) TopicName(id kafkaproto.TopicID) (string, bool) {
	for name, t := range i {
		if t.id == id {
			return name, true
		}
	}
	return "", false
}

// counting is a source of "random" bytes that gives each member id a number of its own.
type counting struct{ n uint64 }

func (c *counting) Read(b []byte) (int, error) {
	c.n++
	clear(b)
	binary.BigEndian.PutUint64(b[8:], c.n)
	return len(b), nil
}

// world is a service on logs in memory and a manual clock, which survives crashes of the service.
type world struct {
	clock     *clock.Manual
	topics    image
	nextTopic byte
	cfg       Config
	logs      map[int32]*coordtest.Log
	auto      bool
	ensureErr error
	random    counting
	svc       *Service
}

const testShards = 4

func newWorld() *world {
	w := &world{
		clock: clock.NewManual(time.UnixMilli(1_000_000)), topics: image{},
		cfg: DefaultConfig(), logs: map[int32]*coordtest.Log{}, auto: true,
	}
	w.start()
	return w
}

func (w *world) start() {
	w.svc = New(Options{
		Clock: w.clock, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Config: w.cfg,
		Topics: func() Topics { return w.topics },
		Open:   func(p int32) (coord.Log, error) { return w.log(p), nil },
		EnsureTopic: func() error {
			if w.ensureErr == nil {
				w.addTopic(OffsetsTopic, testShards)
			}
			return w.ensureErr
		},
		Random: &w.random,
	})
}

func (w *world) log(p int32) *coordtest.Log {
	if w.logs[p] == nil {
		w.logs[p] = coordtest.NewLog(w.auto)
	}
	return w.logs[p]
}

func (w *world) addTopic(name string, partitions int32) {
	next := image{}
	for k, v := range w.topics {
		next[k] = v
	}
	w.nextTopic++
	next[name] = imageTopic{kafkaproto.TopicID{0: 't', 15: w.nextTopic}, partitions}
	w.topics = next
}

func (w *world) dropTopic(name string) kafkaproto.TopicID {
	next := image{}
	for k, v := range w.topics {
		if k != name {
			next[k] = v
		}
	}
	id := w.topics[name].id
	w.topics = next
	return id
}

// crash stops the service and starts it again on what the logs have written, or have committed.
func (w *world) crash(uncommittedToo bool) {
	old := w.logs
	w.logs = map[int32]*coordtest.Log{}
	for p, l := range old {
		end := l.HighWatermark()
		if uncommittedToo {
			end = l.LogEnd()
		}
		w.logs[p] = l.Crashed(end)
	}
	w.svc.Close()
	w.start()
	w.svc.Start()
}

// replies collects answers in the order they come.
type replies struct {
	lines []string
	ids   map[string]string // real member ids by their short name
}

func newReplies() *replies { return &replies{ids: map[string]string{}} }

func (r *replies) add(format string, args ...any) {
	r.lines = append(r.lines, shorten(fmt.Sprintf(format, args...)))
}

func (r *replies) drain() string {
	out := strings.Join(r.lines, "\n")
	r.lines = nil
	return out
}

var memberID = regexp.MustCompile(`[A-Za-z0-9_.]*-00000000-0000-4000-8[0-9a-f]{3}-([0-9a-f]{12})`)

// shorten replaces member ids by m1, m2, … in the order in which they were drawn.
func shorten(s string) string {
	return memberID.ReplaceAllStringFunc(s, func(id string) string {
		n, err := strconv.ParseUint(memberID.FindStringSubmatch(id)[1], 16, 64)
		if err != nil {
			panic(err)
		}
		return fmt.Sprint("m", n)
	})
}

// drawn notes the id that a newcomer was given.
func (r *replies) drawn(prefix string, n uint64) {
	r.ids[fmt.Sprint("m", n)] = fmt.Sprintf("%s-00000000-0000-4000-8000-%012x", prefix, n)
}

func (r *replies) id(short string) string {
	if id, ok := r.ids[short]; ok {
		return id
	}
	return short
}

func code(c int16) string {
	if c == 0 {
		return "ok"
	}
	if e := kerr.TypedErrorForCode(c); e != nil {
		return e.Message
	}
	return fmt.Sprint("error ", c)
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func showJoin(resp *kmsg.JoinGroupResponse) string {
	if resp.ErrorCode != 0 {
		return fmt.Sprintf("%s member=%s", code(resp.ErrorCode), resp.MemberID)
	}
	members := make([]string, len(resp.Members))
	for i, m := range resp.Members {
		members[i] = m.MemberID + "=" + strings.Trim(strconv.Quote(string(m.ProtocolMetadata)), `"`)
		if m.InstanceID != nil {
			members[i] += "(" + *m.InstanceID + ")"
		}
	}
	skip := ""
	if resp.SkipAssignment {
		skip = " skip"
	}
	return fmt.Sprintf("ok gen=%d protocol=%s/%s leader=%s member=%s members=%v%s", resp.Generation,
		text(resp.ProtocolType), text(resp.Protocol), resp.LeaderID, resp.MemberID, members, skip)
}

func showSync(resp *kmsg.SyncGroupResponse) string {
	if resp.ErrorCode != 0 {
		return code(resp.ErrorCode)
	}
	return fmt.Sprintf("ok protocol=%s/%s assignment=%q", text(resp.ProtocolType),
		text(resp.Protocol), resp.MemberAssignment)
}

func showFetch(resp *kmsg.OffsetFetchResponse) string {
	var b strings.Builder
	if len(resp.Groups) == 0 {
		fmt.Fprint(&b, code(resp.ErrorCode))
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %s", showOffset(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata,
					p.ErrorCode))
			}
		}
		return b.String()
	}
	for i, g := range resp.Groups {
		if i > 0 {
			b.WriteString("\n  ")
		}
		fmt.Fprintf(&b, "%s %s", g.Group, code(g.ErrorCode))
		for _, t := range g.Topics {
			name := t.Topic
			if resp.Version >= 10 {
				name = fmt.Sprintf("id%d", t.TopicID[15])
			}
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %s", showOffset(name, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata,
					p.ErrorCode))
			}
		}
	}
	return b.String()
}

func showOffset(topic string, p int32, off int64, epoch int32, meta *string, c int16) string {
	s := fmt.Sprintf("%s-%d=%d", topic, p, off)
	if epoch != -1 {
		s += fmt.Sprintf("@%d", epoch)
	}
	if text(meta) != "" {
		s += fmt.Sprintf("%q", text(meta))
	}
	if c != 0 {
		s += ":" + code(c)
	}
	return s
}

func showDescribe(g *kmsg.DescribeGroupsResponseGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s state=%s protocol=%s/%s", g.Group, code(g.ErrorCode), g.State,
		g.ProtocolType, g.Protocol)
	if g.ErrorMessage != nil {
		fmt.Fprintf(&b, " message=%q", *g.ErrorMessage)
	}
	for _, m := range g.Members {
		fmt.Fprintf(&b, "\n  %s instance=%s client=%s%s metadata=%q assignment=%q", m.MemberID,
			text(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
	}
	return b.String()
}

// showLog prints the records of the logs, as a dump would.
func (w *world) showLog() []string {
	var out []string
	ps := make([]int32, 0, len(w.logs))
	for p := range w.logs {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	for _, p := range ps {
		for _, b := range w.logs[p].Batches() {
			out = append(out, showBatch(b)...)
		}
	}
	return out
}

func showBatch(b batch.Batch) []string {
	if b.IsControl() {
		m, err := b.Marker()
		return []string{fmt.Sprintf("marker producer=%d commit=%v %v", b.ProducerID(),
			m.Kind == batch.Commit, err)}
	}
	var out []string
	err := b.Each(1<<20, func(r *batch.Record) (bool, error) {
		s := showRecord(r.Key, r.Value)
		if b.IsTransactional() {
			s += fmt.Sprintf(" producer=%d", b.ProducerID())
		}
		out = append(out, s)
		return true, nil
	})
	if err != nil {
		out = append(out, err.Error())
	}
	return out
}

func showRecord(k, v []byte) string {
	key, err := decodeKey(k)
	if err != nil {
		return err.Error()
	}
	switch key := key.(type) {
	case groupKey:
		if v == nil {
			return fmt.Sprintf("group %s gone", key)
		}
		g, err := decodeGroupValue(v)
		if err != nil {
			return err.Error()
		}
		s := fmt.Sprintf("group %s gen=%d protocol=%s/%s leader=%s since=%d", key, g.Generation,
			g.ProtocolType, g.Protocol, g.Leader, g.Since)
		for _, m := range g.Members {
			s += fmt.Sprintf(" [%s %s %q %q]", m.ID, m.Instance, m.Subscription, m.Assignment)
		}
		return s
	case offsetKey:
		if v == nil {
			return fmt.Sprintf("offset %s %s-%d gone", key.Group, key.Topic, key.Partition)
		}
		o, err := decodeOffsetValue(v)
		if err != nil {
			return err.Error()
		}
		if n := len(o.Metadata); n > 20 {
			o.Metadata = fmt.Sprintf("%s… %d bytes", o.Metadata[:3], n)
		}
		return fmt.Sprintf("offset %s %s-%d=%d@%d %q at=%d expires=%d", key.Group, key.Topic,
			key.Partition, o.Offset, o.Epoch, o.Metadata, o.Committed, o.Expires)
	}
	return "?"
}

// subscribe is a consumer's subscription to topics, version 0, without user data.
func subscribe(topics ...string) []byte {
	b := appendInt32(appendInt16(nil, 0), int32(len(topics)))
	for _, t := range topics {
		b = appendString(b, t)
	}
	return appendInt32(b, -1)
}

// errDisk is what a full disk answers an append with.
var errDisk = fmt.Errorf("disk: %w", kerr.KafkaStorageError)
