package admin

import (
	"fmt"
	"net/http"
	"strings"
)

// BrokerState is how far a broker is, by Kafka's numbers.
type BrokerState int8

// The states of a broker (Kafka's BrokerState).
const (
	Starting BrokerState = 1
	Recovery BrokerState = 2
	Running  BrokerState = 3
	Stopping BrokerState = 6 // controlled shutdown
)

// Check is one thing that has to be well before clients are served.
type Check struct {
	Name string
	// Problem says what is not well, "" when nothing is.
	Problem string
	// Note says what is not well and does not keep clients from being served, "" when nothing is.
	Note string
}

// State is how far the broker is and what was checked.
type State struct {
	Broker BrokerState
	Checks []Check
}

// Ready reports whether clients are served.
func (s State) Ready() bool {
	for _, c := range s.Checks {
		if c.Problem != "" {
			return false
		}
	}
	return s.Broker == Running
}

// text is the answer of /readyz: with every check when asked for, else with those that failed
// and those with a note.
func (s State) text(verbose bool) string {
	var b strings.Builder
	for _, c := range s.Checks {
		switch {
		case c.Problem != "":
			fmt.Fprintf(&b, "[-] %s: %s\n", c.Name, c.Problem)
		case c.Note != "":
			fmt.Fprintf(&b, "[!] %s: %s\n", c.Name, c.Note)
		case verbose:
			fmt.Fprintf(&b, "[+] %s\n", c.Name)
		}
	}
	if s.Ready() {
		b.WriteString("ready\n")
	} else {
		b.WriteString("not ready\n")
	}
	return b.String()
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	state := s.o.State()
	code := http.StatusOK
	if !state.Ready() {
		code = http.StatusServiceUnavailable
	}
	say(w, code, state.text(r.URL.Query().Has("verbose")))
}
