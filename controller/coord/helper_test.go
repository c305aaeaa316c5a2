package coord_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/coord/coordtest"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// register is a machine of named values. Its inputs are words:
//
//	set K V    write, answer "ok"          get K      answer the value
//	park K     answer at the next set K    alarm MS   answer after MS
//	txn P K V  write in P's transaction    end P yes  commit or abort it
//	call F     run a function in the step  fail       answer an error of the machine's
type register struct {
	values  map[string]string
	pending map[kafkaproto.ProducerID][][2]string
	parked  map[string][]coord.Ticket
	alarms  []alarm
	loaded  bool
}

type alarm struct {
	at int64
	to coord.Ticket
}

type cmd struct {
	words []string
	call  func()
	bulk  int // set: write this many records
}

func newRegister() *register {
	return &register{
		values: map[string]string{}, parked: map[string][]coord.Ticket{},
		pending: map[kafkaproto.ProducerID][][2]string{},
	}
}

func (m *register) put(k, v string, e *coord.Effects[string]) {
	m.values[k] = v
	e.Write(coord.Record{Key: []byte(k), Value: []byte(v)})
}

func (m *register) Step(now coord.Now, to coord.Ticket, in cmd, e *coord.Effects[string]) {
	w := in.words
	switch w[0] {
	case "set":
		m.put(w[1], w[2], e)
		for i := 1; i < in.bulk; i++ {
			m.put(fmt.Sprint(w[1], ".", i), w[2], e)
		}
		for _, t := range m.parked[w[1]] {
			e.Reply(t, "parked:"+w[2])
		}
		delete(m.parked, w[1])
		e.Reply(to, "ok")
	case "get":
		e.Reply(to, m.values[w[1]])
	case "park":
		m.parked[w[1]] = append(m.parked[w[1]], to)
	case "alarm":
		var ms int64
		fmt.Sscan(w[1], &ms)
		m.alarms = append(m.alarms, alarm{now.Steady + ms, to})
	case "txn":
		p := &coord.Producer{ID: pid(w[1]), Epoch: 1}
		m.pending[p.ID] = append(m.pending[p.ID], [2]string{w[2], w[3]})
		e.Write(coord.Record{Key: []byte(w[2]), Value: []byte(w[3]), Producer: p})
		e.Reply(to, "ok")
	case "end":
		mk := coord.Marker{Producer: coord.Producer{ID: pid(w[1]), Epoch: 1}, Commit: w[2] == "yes"}
		m.ApplyMarker(mk)
		e.WriteMarker(mk)
		e.Reply(to, "ok")
	case "call":
		in.call()
		e.Reply(to, "called")
	}
}

func pid(s string) kafkaproto.ProducerID {
	var n int64
	fmt.Sscan(s, &n)
	return kafkaproto.ProducerID(n)
}

func (m *register) Tick(now coord.Now, e *coord.Effects[string]) {
	keep := m.alarms[:0]
	for _, a := range m.alarms {
		if a.at <= now.Steady {
			m.put("alarm", fmt.Sprint(now.Steady), e)
			e.Reply(a.to, "rang")
		} else {
			keep = append(keep, a)
		}
	}
	m.alarms = keep
}

func (m *register) Deadline() int64 {
	at := coord.Never
	for _, a := range m.alarms {
		at = min(at, a.at)
	}
	return at
}

func (m *register) Apply(r *coord.Record) error {
	if strings.HasPrefix(string(r.Key), "?") {
		return errors.New("not known")
	}
	if r.Producer != nil {
		m.pending[r.Producer.ID] = append(m.pending[r.Producer.ID],
			[2]string{string(r.Key), string(r.Value)})
		return nil
	}
	m.values[string(r.Key)] = string(r.Value)
	return nil
}

func (m *register) ApplyMarker(mk coord.Marker) {
	for _, kv := range m.pending[mk.Producer.ID] {
		if mk.Commit {
			m.values[kv[0]] = kv[1]
		}
	}
	delete(m.pending, mk.Producer.ID)
}

func (m *register) Loaded(coord.Now) { m.loaded = true }

// rig is a runtime on logs in memory.
type rig struct {
	t     *testing.T
	clock *clock.Manual
	logs  map[int32]*coordtest.Log
	open  error
	rt    *coord.Runtime[cmd, string]
}

func newRig(t *testing.T, mod func(*coord.Options[cmd, string])) *rig {
	r := &rig{t: t, clock: clock.NewManual(time.UnixMilli(1_000_000)),
		logs: map[int32]*coordtest.Log{}}
	o := coord.Options[cmd, string]{
		Clock: r.clock, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Name: "test",
		NewMachine: func(int32) coord.Machine[cmd, string] { return newRegister() },
		Open: func(p int32) (coord.Log, error) {
			if r.open != nil {
				return nil, r.open
			}
			return r.log(p), nil
		},
	}
	if mod != nil {
		mod(&o)
	}
	r.rt = coord.New(o)
	t.Cleanup(r.rt.Close)
	return r
}

func (r *rig) log(p int32) *coordtest.Log {
	if r.logs[p] == nil {
		r.logs[p] = coordtest.NewLog(false)
	}
	return r.logs[p]
}

// answer is what came of a submit.
type answer struct {
	n   int
	out string
	err error
}

func (a *answer) String() string {
	switch {
	case a.n == 0:
		return "waiting"
	case a.n > 1:
		return fmt.Sprintf("answered %d times", a.n)
	case a.err != nil:
		return fmt.Sprintf("error %d", kafkaproto.Code(a.err))
	}
	return a.out
}

func (r *rig) do(words ...string) *answer { return r.on(0, words...) }

func (r *rig) on(p int32, words ...string) *answer {
	return r.submit(p, cmd{words: words})
}

func (r *rig) submit(p int32, c cmd) *answer {
	a := &answer{}
	r.rt.Submit(p, c, func(out string, err error) { a.n, a.out, a.err = a.n+1, out, err })
	return a
}

func (r *rig) want(a *answer, want string) {
	r.t.Helper()
	if got := a.String(); got != want {
		r.t.Fatalf("got %q, want %q", got, want)
	}
}
