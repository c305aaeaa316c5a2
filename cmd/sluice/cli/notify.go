package cli

import (
	"net"
	"strings"
)

// notify tells systemd (Type=notify) of a state, when it listens (sd_notify(3)).
func (e *env) notify(state string) {
	name := e.getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		name = "\x00" + rest // an abstract socket
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return // a broker serves also when nobody wants to know
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
