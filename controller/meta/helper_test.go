package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// tb is what testing.TB and *rapid.T share.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// machine is an image with its surroundings, as quorum drives it.
type machine struct {
	image *Image
	env   Env
	log   [][]byte // every record, encoded
}

func newMachine(t tb, static map[string]string, nodes ...kafkaproto.NodeID) *machine {
	t.Helper()
	s, _, err := config.NewStatic(config.Layer{Name: "test", Values: static})
	if err != nil {
		t.Fatalf("%v", err)
	}
	m := &machine{image: Empty(), env: Env{
		Static: s, Node: 1, Random: rand.NewChaCha8([32]byte{1}),
	}}
	m.do(t, InitCluster{ClusterID: "4L6g3nShT-eMCtK--X86sw"})
	for _, n := range nodes {
		m.do(t, RegisterBroker{ID: n, Directory: fmt.Sprint("dir", n)})
	}
	return m
}

// do executes and applies a command; it checks that the image did not change before.
func (m *machine) do(t tb, c Command) Result {
	t.Helper()
	before := fmt.Sprint(m.image.Snapshot())
	records, res, err := m.image.Execute(c, m.env)
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	next, err := m.image.Apply(records...)
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	if after := fmt.Sprint(m.image.Snapshot()); after != before {
		t.Fatalf("%T changed the image under it:\n%s\n%s", c, before, after)
	}
	if next.Version() != m.image.Version()+int64(len(records)) {
		t.Fatalf("version %d after %d and %d records", next.Version(), m.image.Version(), len(records))
	}
	for _, r := range records {
		b, err := EncodeRecord(r)
		if err != nil {
			t.Fatalf("%v", err)
		}
		m.log = append(m.log, b)
	}
	m.image = next
	return res
}

// checkErr compares an error with "CODE: sentence" ("" for none); "CODE" alone looks at the code.
func checkErr(t tb, what string, err error, want string) {
	t.Helper()
	got := ""
	var f *kafkaproto.Fault
	var k *kerr.Error
	switch {
	case err == nil:
	case errors.As(err, &f):
		got = f.Error()
	case errors.As(err, &k):
		got = k.Message
	default:
		got = err.Error()
	}
	if got != want && (want == "" || !strings.HasPrefix(got, want+":")) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func str(s string) *string { return &s }

// same compares images by what they hold.
func same(a, b *Image) bool {
	return reflect.DeepEqual(normal(a), normal(b))
}

// normal spells an image: equal spellings are equal images.
func normal(i *Image) []string {
	var all []string
	for _, r := range i.Snapshot() {
		b, err := EncodeRecord(r)
		if err != nil {
			panic(err)
		}
		all = append(all, string(b))
	}
	return all
}

func names(i *Image) []string {
	var all []string
	for t := range i.Topics() {
		all = append(all, t.Name)
	}
	return all
}

func mustDecode(t testing.TB, s string) Record {
	t.Helper()
	r, err := DecodeRecord([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
