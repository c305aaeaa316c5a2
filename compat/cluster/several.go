package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// StartSeveral starts n brokers that found one cluster, nodes 1 to n, and waits until all are ready.
// Options.Dir is not heeded: each has a directory of its own.
func StartSeveral(t testing.TB, n int, o Options) []*Broker {
	t.Helper()
	peers := make([]string, n)
	for i := range peers {
		peers[i] = FreeAddress(t)
	}
	brokers := make([]*Broker, n)
	for i := range brokers {
		each := o
		each.Dir = t.TempDir()
		each.Overrides = append([]string{
			fmt.Sprint("node.id=", i+1), "sluice.peer.listener=" + peers[i],
			"sluice.seeds=" + strings.Join(peers, ","), "sluice.http.listeners=",
		}, o.Overrides...)
		b := &Broker{t: t, options: each.withDefaults(t), binary: Binary(t), address: FreeAddress(t)}
		t.Cleanup(b.cleanup)
		brokers[i] = b
		if err := b.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range brokers {
		if err := b.awaitReady(); err != nil {
			t.Fatalf("%v\n%s", err, b.Output())
		}
	}
	return brokers
}
