package segment

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
	"pgregory.net/rapid"
)

func TestEpochsText(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []EpochStart
		corrupt    bool
	}{
		{"none", "0\n0\n", []EpochStart{}, false},
		{"two", "0\n2\n0 0\n3 1200\n", []EpochStart{{0, 0}, {3, 1200}}, false},
		{"no last newline", "0\n1\n5 9", []EpochStart{{5, 9}}, false},
		{"terms without data", "0\n2\n1 7\n2 7\n", []EpochStart{{1, 7}, {2, 7}}, false},
		{"empty", "", nil, true},
		{"torn", "0\n2\n0 0\n", nil, true},
		{"too many", "0\n1\n0 0\n1 1\n", nil, true},
		{"epochs fall", "0\n2\n1 0\n0 5\n", nil, true},
		{"offsets fall", "0\n2\n1 5\n2 4\n", nil, true},
		{"negative", "0\n1\n-1 0\n", nil, true},
		{"large epoch", "0\n1\n2147483648 0\n", nil, true},
		{"no offset", "0\n1\n1\n", nil, true},
		{"sign", "0\n1\n+1 0\n", nil, true},
		{"zeros", "\x00\x00\x00\x00", nil, true},
		{"newer", "1\n0\n", nil, false},
	} {
		got, err := ParseEpochs([]byte(c.text))
		if kafkaproto.IsCorrupt(err) != c.corrupt || (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

func TestTextFilesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := vfs.PowerLoss(rapid.Uint64().Draw(t, "seed"))
		if err := p.MkdirAll("d", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := p.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		var epochs []EpochStart
		for i := range rapid.IntRange(0, 5).Draw(t, "epochs") {
			epochs = append(epochs, EpochStart{kafkaproto.LeaderEpoch(i * 3), kafkaproto.Offset(i * 100)})
		}
		id, err := kafkaproto.NewTopicID(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(WriteEpochs(p, "d", epochs), WriteMetadata(p, "d", id)); err != nil {
			t.Fatal(err)
		}
		p = p.Crash(vfs.PowerCrash)
		got, err := ReadEpochs(p, "d")
		if err != nil || !slices.Equal(got, epochs) {
			t.Fatalf("epochs %v, %v", got, err)
		}
		if back, err := ReadMetadata(p, "d"); err != nil || back != id {
			t.Fatalf("topic id %v, %v", back, err)
		}
	})
}

func TestMetadataText(t *testing.T) {
	const good = "version: 0\ntopic_id: 8OQO1sRcSXqZ1wRPjxm5Aw"
	id, err := ParseMetadata([]byte(good))
	if err != nil || id.String() != "8OQO1sRcSXqZ1wRPjxm5Aw" {
		t.Fatalf("%v, %v", id, err)
	}
	for name, text := range map[string]string{
		"empty": "", "no id": "version: 0\n", "zero id": "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
		"torn": good[:len(good)-3], "more": good + "\nx: 1", "swapped": "topic_id: 8OQO1sRcSXqZ1wRPjxm5Aw\nversion: 0",
	} {
		if _, err := ParseMetadata([]byte(text)); !kafkaproto.IsCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseMetadata([]byte("version: 1\nwhatever")); err == nil || kafkaproto.IsCorrupt(err) {
		t.Errorf("newer: %v", err)
	}
	if _, err := ReadMetadata(vfs.Memory(), "/"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}
