package node

import (
	"encoding/hex"
	"net"
	"os"
	"slices"
	"strings"
)

// defaultGateway reads the IPv4 default route: inside a container, clients of a published port
// come from there. nil where there is none to be read.
func defaultGateway() net.IP {
	raw, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil
	}
	return parseGateway(string(raw))
}

// parseGateway finds the default route in the table of /proc/net/route: destination 0, gateway as
// eight hexadecimal digits in little-endian order.
func parseGateway(table string) net.IP {
	for _, line := range strings.Split(table, "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "00000000" || f[2] == "00000000" {
			continue
		}
		ip, err := hex.DecodeString(f[2])
		if err != nil || len(ip) != 4 {
			continue
		}
		slices.Reverse(ip)
		return net.IP(ip)
	}
	return nil
}
