package quorum

import (
	"testing"

	"github.com/sluicelog/sluice/controller/meta"
)

// TestDeleted: a topic that was deleted is told by its id, also when its name lives on.
func TestDeleted(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	create(t, c, "a", "b")
	create(t, c, "c")
	gone := c.Image().Topic("b").ID
	if _, err := c.Do(meta.DeleteTopics{Topics: []meta.TopicRef{{Name: "b"}}}); err != nil {
		t.Fatal(err)
	}
	create(t, c, "b")
	for range 2 {
		c = w.reopen(c)
		if got, err := c.Deleted(); err != nil || len(got) != 1 || !got[gone] {
			t.Errorf("%v are deleted, %v", got, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
