package crash

import (
	"strings"
	"testing"
)

// sample is a history of two producers in two partitions, and the log that fits it.
func sample() (*History, map[int][]Read) {
	h := NewHistory()
	log := make(map[int][]Read)
	for partition := range 2 {
		for i := range 6 {
			r := Record{Producer: i % 2, Partition: partition, Seq: i / 2}
			h.Sent(r)
			if i != 5 { // the last one is in the log without an acknowledgement
				h.Acked(r, int64(i))
			}
			log[partition] = append(log[partition], Read{int64(i), r})
		}
	}
	h.Sent(Record{0, 0, 3}) // neither acknowledged nor there
	return h, log
}

func TestCheckAcceptsWhatIsRight(t *testing.T) {
	h, log := sample()
	if faults := h.Check(log); len(faults) > 0 {
		t.Fatal(faults)
	}
}

func TestCheckFindsEachFault(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(map[int][]Read)
		says string
	}{
		"lost":    {func(l map[int][]Read) { l[0] = l[0][:4] }, "is lost"},
		"hole":    {func(l map[int][]Read) { l[0] = append(l[0][:2], l[0][3:]...) }, "belongs"},
		"moved":   {func(l map[int][]Read) { l[0][1].Record, l[0][2].Record = l[0][2].Record, l[0][1].Record }, "is at"},
		"twice":   {func(l map[int][]Read) { l[1] = append(l[1], Read{6, l[1][0].Record}) }, "again at"},
		"swapped": {func(l map[int][]Read) { l[1][0].Record, l[1][2].Record = l[1][2].Record, l[1][0].Record }, "behind a later one"},
		"foreign": {func(l map[int][]Read) { l[1] = append(l[1], Read{6, Record{7, 1, 0}}) }, "never sent"},
		"crossed": {func(l map[int][]Read) { l[0], l[1] = l[1], l[0] }, "never sent there"},
	} {
		t.Run(name, func(t *testing.T) {
			h, log := sample()
			c.harm(log)
			if faults := strings.Join(h.Check(log), "\n"); !strings.Contains(faults, c.says) {
				t.Fatalf("want %q in %q", c.says, faults)
			}
		})
	}
}
