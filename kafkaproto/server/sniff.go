package server

import "encoding/binary"

// stranger is what the first bytes of a connection say it speaks, if not Kafka.
type stranger string

const (
	strangerNone stranger = ""
	strangerTLS  stranger = "TLS"
	strangerHTTP stranger = "HTTP"
)

// sniff judges a connection by its first four bytes. Read as a frame size each of them is above
// 350 MB, so nothing that is Kafka is lost.
func sniff(first [4]byte) stranger {
	if first[0] == 0x16 && first[1] == 0x03 {
		return strangerTLS
	}
	switch string(first[:]) {
	case "GET ", "PUT ", "POST", "HEAD", "OPTI", "DELE", "PATC", "CONN", "TRAC", "PRI ":
		return strangerHTTP
	}
	return strangerNone
}

// httpHint is what a browser or health check sees that took the broker's port for a web server.
const httpHint = "HTTP/1.1 400 Bad Request\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This port speaks Kafka's protocol, not HTTP. Point a Kafka client at it.\n"

// frameSize reads the four bytes in front of a frame; negative sizes stay negative.
func frameSize(b []byte) int { return int(int32(binary.BigEndian.Uint32(b))) }
