package quorum

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// coreRig is a core with a clock, and what it has answered.
type coreRig struct {
	t   *testing.T
	c   core
	now time.Time
	end kafkaproto.Offset
	got map[string]string
	out effects
}

func newCoreRig(t *testing.T) *coreRig {
	r := &coreRig{t: t, now: time.Unix(1_700_000_000, 0), got: map[string]string{}}
	exec := func(img *meta.Image, cmd meta.Command, b *batch.Builder, _ int64) (*meta.Image, meta.Result, error) {
		records, res, err := img.Execute(cmd, meta.Env{})
		if err != nil {
			return img, nil, err
		}
		for _, rec := range records {
			if err := addRecord(b, rec, testMs); err != nil {
				t.Fatal(err)
			}
		}
		next, err := img.Apply(records...)
		return next, res, err
	}
	r.c = core{execute: exec, self: 1, image: meta.Empty(), lead: engine.Leadership{Leader: -1}}
	return r
}

// submit gives a command under a name, as a caller here, or as another broker.
func (r *coreRig) submit(name string, cmd meta.Command, remote bool) {
	p := &pending{command: cmd, reply: func(_ meta.Result, err error) { r.say(name, fmt.Sprint("code ", kafkaproto.Code(err))) }}
	if remote {
		p.answer = func(a answer) { r.say(name, fmt.Sprint(a.outcome, " ", a.version)) }
	}
	r.c.submit(p, r.now)
}

func (r *coreRig) say(name, what string) {
	if r.got[name] != "" {
		r.t.Errorf("%s is answered twice: %s and %s", name, r.got[name], what)
	}
	r.got[name] = what
}

func (r *coreRig) step() {
	r.out = r.c.step(r.now, r.end)
	for _, a := range r.out.replies {
		a.finish()
	}
}

func (r *coreRig) lead(epoch kafkaproto.LeaderEpoch) {
	r.c.leadership(engine.Leadership{Leader: 1, Epoch: epoch, Leading: true, Ready: true})
}

func (r *coreRig) follow(leader kafkaproto.NodeID, epoch kafkaproto.LeaderEpoch) {
	r.c.leadership(engine.Leadership{Leader: leader, Epoch: epoch})
}

// apply tells the core that a batch with a flight's records was applied.
func (r *coreRig) apply(f *flight, epoch kafkaproto.LeaderEpoch) {
	f.batch.SetBaseOffset(f.base)
	f.batch.SetLeaderEpoch(epoch)
	next, err := applyBatches(r.c.image, f.batch)
	if err != nil {
		r.t.Fatal(err)
	}
	r.end = kafkaproto.Offset(next.Version())
	r.c.applied(next, []span{{f.base, f.end, epoch}})
}

func (r *coreRig) want(all ...string) {
	r.t.Helper()
	for i := 0; i < len(all); i += 2 {
		if got := r.got[all[i]]; got != all[i+1] {
			r.t.Errorf("%s: %q, want %q", all[i], got, all[i+1])
		}
	}
}

var (
	initCmd = meta.InitCluster{ClusterID: uuid(1)}
	nextIDs = meta.AllocateProducerIDs{Node: 1}
	regCmd  = meta.RegisterBroker{ID: 1, Directory: "d"}
	fence   = meta.ChangeBroker{ID: 1, Change: meta.FenceBroker, IfVersion: 1}
)

// TestCoreFencing: a batch counts by its epoch: the same offsets of another leader answer nobody.
func TestCoreFencing(t *testing.T) {
	r := newCoreRig(t)
	r.lead(3)
	r.submit("init", initCmd, false)
	r.submit("reg", regCmd, true)
	r.step()
	f := r.out.flight
	if f == nil || f.epoch != 3 || len(f.members) != 2 {
		t.Fatalf("%+v", f)
	}
	r.c.fate(f, nil) // committed, and not applied yet
	r.step()
	r.want("init", "", "reg", "")
	r.apply(f, 3)
	r.step()
	r.want("init", "code 0", "reg", fmt.Sprint("done ", r.c.image.Version()))

	r.submit("fence", fence, false)
	r.submit("far", fence, true)
	r.step()
	lost := r.out.flight
	other := *lost // what another leader writes at the same offsets
	r.apply(&other, 4)
	r.step()
	r.want("fence", fmt.Sprint("code ", kerr.NotController.Code), "far", "refused 0")
}

// TestCoreLost: what a leader that is deposed has written is unknown, what it has not is tried again.
func TestCoreLost(t *testing.T) {
	r := newCoreRig(t)
	r.lead(3)
	r.submit("init", initCmd, false)
	r.submit("reg", regCmd, false)
	r.step()
	r.apply(r.out.flight, 3)
	r.step()
	r.submit("written", fence, false)
	r.submit("far", nextIDs, true)
	r.submit("harmless", nextIDs, false)
	r.submit("refused", meta.ChangeBroker{ID: 7, Change: meta.FenceBroker, IfVersion: 1}, false)
	r.step()
	r.follow(2, 4)
	r.step()
	r.want("written", fmt.Sprint("code ", kerr.NotController.Code), "far", "unknown 0", "harmless", "", "refused", "")
	if n := len(r.out.forward); n != 2 {
		t.Fatalf("%d commands are forwarded, of two that may be", n)
	}
	for _, f := range r.out.forward {
		if f.to != 2 {
			t.Errorf("forwarded to %d", f.to)
		}
		r.c.forwarded(f.p, answer{outcome: outcomeDone, version: r.c.image.Version() + 1}, r.now)
	}
	r.step()
	r.want("harmless", "", "refused", "") // this image does not show it yet
	next, err := r.c.image.Apply(sampleRecord(t, r.c.image)...)
	if err != nil {
		t.Fatal(err)
	}
	r.c.applied(next, nil)
	r.step()
	r.want("harmless", "code 0", "refused", "code 0")
}

func sampleRecord(t *testing.T, img *meta.Image) []meta.Record {
	records, _, err := img.Execute(nextIDs, meta.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// TestCoreForward: refusals are tried again, later each time, up to the bound; unknown ends are not.
func TestCoreForward(t *testing.T) {
	r := newCoreRig(t)
	r.submit("early", fence, false)
	r.step()
	if len(r.out.forward) != 0 || !r.out.wake.Equal(r.now.Add(commandTimeout)) {
		t.Errorf("%+v", r.out)
	}
	r.follow(2, 4)
	r.submit("from afar", fence, true)
	tries := 0
	for r.got["early"] == "" {
		r.step()
		for _, f := range r.out.forward {
			tries++
			r.c.forwarded(f.p, answer{outcome: outcomeRefused}, r.now)
		}
		r.now = r.now.Add(10 * time.Millisecond)
	}
	r.want("early", fmt.Sprint("code ", kerr.NotController.Code), "from afar", "refused 0")
	if tries < 30 || tries > 60 {
		t.Errorf("%d tries", tries)
	}
	r.submit("once", fence, false)
	r.submit("twice", nextIDs, false)
	r.step()
	for _, f := range r.out.forward {
		r.c.forwarded(f.p, answer{outcome: outcomeUnknown}, r.now)
	}
	r.step()
	r.want("once", fmt.Sprint("code ", kerr.RequestTimedOut.Code), "twice", "")
	r.now = r.now.Add(commandTimeout)
	r.step()
	r.want("twice", fmt.Sprint("code ", kerr.RequestTimedOut.Code))
}

// TestCoreAppendFails: after a failed append nothing has happened.
func TestCoreAppendFails(t *testing.T) {
	r := newCoreRig(t)
	r.lead(3)
	r.submit("a", initCmd, false)
	r.step()
	r.c.appendFailed(r.out.flight, errors.New("disk"))
	r.step()
	r.want("a", fmt.Sprint("code ", kerr.KafkaStorageError.Code))
	r.submit("b", initCmd, false)
	r.step()
	r.c.appendFailed(r.out.flight, kerr.NotLeaderForPartition)
	r.follow(-1, 4)
	r.step()
	r.want("b", "")
	r.end = 5 // another leader's, not applied yet
	r.lead(5)
	r.step()
	if r.out.flight != nil {
		t.Error("executed on an image that is not the newest")
	}
	for _, a := range r.c.close() {
		a.finish()
	}
	r.want("b", fmt.Sprint("code ", kerr.NotController.Code))
}
