package node

import (
	"net"

	"github.com/sluicelog/sluice/cmd/sluice/admin"
)

// defaultHTTP is where the HTTP listener is when nothing else is asked for. A second broker on the
// same machine then does without one, instead of not starting.
const defaultHTTP = "127.0.0.1:8080"

// startAdmin opens the HTTP listener, before recovery, so that /readyz can tell of it.
func (n *Node) startAdmin() error {
	n.admin = admin.New(admin.Options{
		Addrs: n.config.Broker().HTTPListeners, Logger: n.o.Logger.With("component", "http"),
		State: n.health,
	})
	err := n.admin.Start()
	if err == nil {
		return nil
	}
	if _, _, set := n.o.Static.Lookup("sluice.http.listeners"); set {
		return err
	}
	n.o.Logger.Warn("no HTTP listener: metrics and health are not served; "+
		"set sluice.http.listeners to another address, or to nothing", "addr", defaultHTTP, "err", err)
	return nil
}

// HTTPAddrs are the bound addresses of the HTTP listener; none when there is none.
func (n *Node) HTTPAddrs() []net.Addr { return n.admin.Addrs() }

// notServing makes /readyz answer 503 with the reason.
func (n *Node) notServing(why string) { n.state.Store(&why) }

// health is what /readyz answers.
func (n *Node) health() admin.State {
	if why := n.state.Load(); why != nil {
		return admin.State{Why: []string{*why}}
	}
	if err := n.store.Err(); err != nil {
		return admin.State{Why: []string{"data directory: " + err.Error()}}
	}
	return admin.State{Ready: true, Why: []string{
		"listeners open", "metadata loaded", "data directory takes writes",
	}}
}
