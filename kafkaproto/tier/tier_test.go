package tier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fake is a test that keeps what it was told.
type fake struct {
	testing.TB
	failed, logged string
}

func (f *fake) Helper()                      {}
func (f *fake) Logf(s string, a ...any)      { f.logged = fmt.Sprintf(s, a...) }
func (f *fake) Fatalf(s string, args ...any) { f.failed = fmt.Sprintf(s, args...) }

func TestEnvironmentDecides(t *testing.T) {
	t.Setenv(AmountVar, "")
	t.Setenv(SeedVar, "")
	want := uint64(40)
	if testing.Short() {
		want = 4
	}
	if r := Of(t, 40, 7); r != (Run{want, 7}) {
		t.Errorf("%+v", r)
	}
	t.Setenv(AmountVar, "3")
	t.Setenv(SeedVar, "100")
	r := Of(t, 40, 7)
	if got := slices.Collect(r.Seeds()); !slices.Equal(got, []uint64{100, 101, 102}) {
		t.Errorf("seeds %v", got)
	}
	f := &fake{TB: t}
	if r.Report(f, "%d cuts", 9); !strings.HasPrefix(f.logged, ReportMark+"amount=3 seed=100 9 cuts") {
		t.Errorf("reported %q", f.logged)
	}
	t.Setenv(AmountVar, "many")
	if Of(f, 40, 7); !strings.Contains(f.failed, AmountVar) {
		t.Errorf("a word as the amount: %q", f.failed)
	}
}
