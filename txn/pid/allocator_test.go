package pid

import (
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeController gives blocks when it is told to, or at once.
type fakeController struct {
	mu      sync.Mutex
	next    kafkaproto.ProducerID
	hold    bool
	fail    error
	pending []func(meta.Result, error)
	asked   int
}

func (c *fakeController) Submit(cmd meta.Command, reply func(meta.Result, error)) {
	if cmd.(meta.AllocateProducerIDs).Node != 7 {
		panic("asked for another node")
	}
	c.mu.Lock()
	c.asked++
	if c.hold {
		c.pending = append(c.pending, reply)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.answer(reply)
}

func (c *fakeController) answer(reply func(meta.Result, error)) {
	c.mu.Lock()
	err := c.fail
	b := meta.ProducerIDBlock{First: c.next, Count: meta.ProducerIDBlockSize}
	if err == nil {
		c.next += meta.ProducerIDBlockSize
	}
	c.mu.Unlock()
	if err != nil {
		reply(nil, err)
		return
	}
	reply(b, nil)
}

// release answers what is held.
func (c *fakeController) release() int {
	c.mu.Lock()
	held := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, reply := range held {
		c.answer(reply)
	}
	return len(held)
}

func TestNextIsDense(t *testing.T) {
	a := New(&fakeController{}, 7)
	for want := range kafkaproto.ProducerID(3500) {
		if got, err := a.Next(); err != nil || got != want {
			t.Fatalf("%d, %v, want %d", got, err, want)
		}
	}
}

// TestRefillAhead: the next block is there before the last id of this one is out, and one request
// is under way at most (P2).
func TestRefillAhead(t *testing.T) {
	c := &fakeController{}
	a := New(c, 7)
	c.mu.Lock()
	c.hold = true
	c.mu.Unlock()
	for n := range meta.ProducerIDBlockSize {
		if _, err := a.Next(); err != nil {
			t.Fatal(err)
		}
		if want := 1; n+1 >= meta.ProducerIDBlockSize-refillAt && c.asked != want+1 || n+1 < meta.ProducerIDBlockSize-refillAt && c.asked != want {
			t.Fatalf("after %d ids %d blocks were asked for", n+1, c.asked)
		}
	}
	if c.release() != 1 {
		t.Fatal("no block was asked for ahead")
	}
	if id, err := a.Next(); id != meta.ProducerIDBlockSize || err != nil {
		t.Errorf("%d, %v", id, err)
	}
}

// TestWaiters: callers beyond the block wait, in order, also for a second block.
func TestWaiters(t *testing.T) {
	c := &fakeController{hold: true}
	a := New(c, 7)
	const callers = 2500
	var got []kafkaproto.ProducerID
	for range callers {
		a.Draw(func(id kafkaproto.ProducerID, err error) {
			if err != nil {
				t.Error(err)
			}
			got = append(got, id)
		})
	}
	if c.asked != 1 || len(got) != 0 {
		t.Fatalf("%d blocks asked for, %d ids", c.asked, len(got))
	}
	for c.release() > 0 {
	}
	if len(got) != callers {
		t.Fatalf("%d of %d callers are answered", len(got), callers)
	}
	for i, id := range got {
		if id != kafkaproto.ProducerID(i) {
			t.Fatalf("caller %d got %d", i, id)
		}
	}
}

// TestFailure: callers hear of it with a code that producers retry on, and the next one asks again
// (P3).
func TestFailure(t *testing.T) {
	c := &fakeController{fail: errors.New("the log has stopped")}
	a := New(c, 7)
	if _, err := a.Next(); kafkaproto.Code(err) != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("%v", err)
	}
	c.fail = kafkaproto.Faultf(kerr.NotController, "stopping")
	if _, err := a.Next(); kafkaproto.Code(err) != kerr.NotController.Code {
		t.Errorf("%v", err)
	}
	c.fail = nil
	if id, err := a.Next(); id != 0 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
	// A failed refill is not heard of while there are ids.
	c.fail = errors.New("again")
	for range meta.ProducerIDBlockSize - 1 {
		if _, err := a.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Next(); err == nil {
		t.Error("an id out of nowhere")
	}
}

// TestConcurrent: no id twice, whoever asks.
func TestConcurrent(t *testing.T) {
	a := New(&fakeController{}, 7)
	var mu sync.Mutex
	seen := map[kafkaproto.ProducerID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				id, err := a.Next()
				mu.Lock()
				if err != nil || seen[id] {
					t.Errorf("%d, %v, seen: %v", id, err, seen[id])
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestNeverTwice: over crashes at any moment, with blocks that were durable and not yet answered, no
// id comes twice (P1).
func TestNeverTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durable := kafkaproto.ProducerID(0)
		seen := map[kafkaproto.ProducerID]bool{}
		for range rapid.IntRange(1, 5).Draw(t, "lives") {
			c := &fakeController{next: durable, hold: rapid.Bool().Draw(t, "hold")}
			a := New(c, 7)
			for range rapid.IntRange(0, 40).Draw(t, "steps") {
				if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
					c.release()
					continue
				}
				for range rapid.IntRange(1, 400).Draw(t, "draws") {
					a.Draw(func(id kafkaproto.ProducerID, err error) {
						if err != nil || seen[id] {
							t.Fatalf("id %d, %v, seen: %v", id, err, seen[id])
						}
						seen[id] = true
					})
				}
			}
			durable = c.next
		}
	})
}
