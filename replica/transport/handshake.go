package transport

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/sluicelog/sluice/kafkaproto"
)

// The handshake of each connection. Integers are big-endian, sums are CRC32C of the bytes before.
//
//	hello    who dialled     magic "sluP" | version u8 | role u8 | flags u8 | cluster id: u8, 64 bytes |
//	                         from i32 | to i32 | incarnation u64 | nonce 32 | sum u32
//	welcome  who accepted    magic | version u8 | status u8 | flags u8 | 0 | node i32 | incarnation u64 |
//	                         nonce 32 | sum u32
//	proof    who dialled     HMAC-SHA256(secret, "dial" label, hello, welcome, channel)
//	verdict  who accepted    status u8 | HMAC-SHA256(secret, "accept" label, hello, welcome, channel)
//
// version is the newest that who dialled speaks, then the one that is spoken. channel is what TLS
// exports for this connection, or nothing. Who dialled proves first: a stranger who dials learns
// nothing that is made with the secret. Without secret the proofs are zeros.
const (
	handshakeVersion = 1

	clusterMax  = 64
	nonceSize   = 32
	helloSize   = 4 + 1 + 1 + 1 + 1 + clusterMax + 4 + 4 + 8 + nonceSize + 4
	welcomeSize = 4 + 1 + 1 + 1 + 1 + 4 + 8 + nonceSize + 4
	proofSize   = sha256.Size
	verdictSize = 1 + proofSize

	flagSecret = 1

	labelDial   = "sluice peer dial 1\x00"
	labelAccept = "sluice peer accept 1\x00"
)

var handshakeMagic = [4]byte{'s', 'l', 'u', 'P'}

// role is what a connection is for.
type role uint8

const (
	roleControl role = iota
	roleData0
	roleData1
	roleBulk
	roleJoin // calls from a node that has no number
	roles
)

func (r role) data() bool { return r == roleData0 || r == roleData1 }

func (r role) String() string {
	return [...]string{"control", "data0", "data1", "bulk", "join", "unknown"}[min(r, roles)]
}

// refusal is why a handshake was refused; it travels as one byte.
type refusal uint8

const (
	refusedNothing refusal = iota
	refusedVersion
	refusedCluster
	refusedNode
	refusedSecret
	refusedStale
	refusedIdentity
	refusals
)

var refusalTexts = [refusals]string{
	"accepted",
	"the versions of the peer protocol have nothing in common",
	"the cluster ids differ",
	"the address belongs to another node",
	"the secrets differ, or only one side has one",
	"a later start of the node is known: two processes run with one node id, or its incarnation went back",
	"the certificate does not name this node",
}

// Error says it in words.
func (r refusal) Error() string {
	if r < refusals {
		return refusalTexts[r]
	}
	return fmt.Sprintf("refused for reason %d", uint8(r))
}

// hello is the first message of who dialled.
type hello struct {
	Version     uint8
	Role        role
	Secret      bool
	Cluster     string
	From, To    kafkaproto.NodeID
	Incarnation uint64
	Nonce       [nonceSize]byte
}

func (h *hello) encode() [helloSize]byte {
	var b [helloSize]byte
	copy(b[:], handshakeMagic[:])
	b[4], b[5], b[7] = h.Version, uint8(h.Role), uint8(len(h.Cluster))
	if h.Secret {
		b[6] = flagSecret
	}
	copy(b[8:8+clusterMax], h.Cluster)
	at := b[8+clusterMax:]
	binary.BigEndian.PutUint32(at, uint32(h.From))
	binary.BigEndian.PutUint32(at[4:], uint32(h.To))
	binary.BigEndian.PutUint64(at[8:], h.Incarnation)
	copy(at[16:], h.Nonce[:])
	putSum(b[:])
	return b
}

var errNoHandshake = kafkaproto.Corruptf("these bytes are no handshake of a peer")

func parseHello(b *[helloSize]byte) (h hello, err error) {
	if [4]byte(b[:4]) != handshakeMagic || !sumHolds(b[:]) || b[7] > clusterMax || role(b[5]) >= roles ||
		b[6] > flagSecret || b[4] == 0 {
		return hello{}, errNoHandshake
	}
	for _, c := range b[8+int(b[7]) : 8+clusterMax] {
		if c != 0 {
			return hello{}, errNoHandshake
		}
	}
	at := b[8+clusterMax:]
	h = hello{Version: b[4], Role: role(b[5]), Secret: b[6] == flagSecret, Cluster: string(b[8 : 8+int(b[7])]),
		From: kafkaproto.NodeID(binary.BigEndian.Uint32(at)), To: kafkaproto.NodeID(binary.BigEndian.Uint32(at[4:])),
		Incarnation: binary.BigEndian.Uint64(at[8:]), Nonce: [nonceSize]byte(at[16:])}
	return h, nil
}

// welcome is the answer to hello.
type welcome struct {
	Version     uint8
	Status      refusal
	Secret      bool
	Node        kafkaproto.NodeID
	Incarnation uint64
	Nonce       [nonceSize]byte
}

func (w *welcome) encode() [welcomeSize]byte {
	var b [welcomeSize]byte
	copy(b[:], handshakeMagic[:])
	b[4], b[5] = w.Version, uint8(w.Status)
	if w.Secret {
		b[6] = flagSecret
	}
	binary.BigEndian.PutUint32(b[8:], uint32(w.Node))
	binary.BigEndian.PutUint64(b[12:], w.Incarnation)
	copy(b[20:], w.Nonce[:])
	putSum(b[:])
	return b
}

func parseWelcome(b *[welcomeSize]byte) (w welcome, err error) {
	if [4]byte(b[:4]) != handshakeMagic || !sumHolds(b[:]) || b[6] > flagSecret || b[7] != 0 {
		return welcome{}, errNoHandshake
	}
	return welcome{Version: b[4], Status: refusal(b[5]), Secret: b[6] == flagSecret,
		Node:        kafkaproto.NodeID(binary.BigEndian.Uint32(b[8:])),
		Incarnation: binary.BigEndian.Uint64(b[12:]), Nonce: [nonceSize]byte(b[20:])}, nil
}

func putSum(b []byte) {
	n := len(b) - 4
	binary.BigEndian.PutUint32(b[n:], crc32.Checksum(b[:n], castagnoli))
}

func sumHolds(b []byte) bool {
	n := len(b) - 4
	return binary.BigEndian.Uint32(b[n:]) == crc32.Checksum(b[:n], castagnoli)
}

// prove makes the proof of one side: it covers everything that both have said on this connection.
func prove(secret []byte, label string, h *[helloSize]byte, w *[welcomeSize]byte, channel []byte) (p [proofSize]byte) {
	if len(secret) == 0 {
		return p
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(label))
	mac.Write(h[:])
	mac.Write(w[:])
	mac.Write(channel)
	mac.Sum(p[:0])
	return p
}

// party is what one side brings to a handshake.
type party struct {
	cluster     string
	node        kafkaproto.NodeID
	incarnation uint64
	secret      []byte
	channel     []byte // of TLS
	random      io.Reader
	// admit has the last word on a proven hello (accepting side only).
	admit func(*hello) refusal
}

// dial is the handshake of who dialled. It gives the other side's number and incarnation.
func (p *party) dial(c io.ReadWriter, r role, to kafkaproto.NodeID) (welcome, error) {
	h := hello{Version: handshakeVersion, Role: r, Secret: len(p.secret) > 0, Cluster: p.cluster, From: p.node,
		To: to, Incarnation: p.incarnation}
	if _, err := io.ReadFull(p.random, h.Nonce[:]); err != nil {
		return welcome{}, err
	}
	hb := h.encode()
	if _, err := c.Write(hb[:]); err != nil {
		return welcome{}, err
	}
	var wb [welcomeSize]byte
	if _, err := io.ReadFull(c, wb[:]); err != nil {
		return welcome{}, fmt.Errorf("no answer to the handshake: %w", err)
	}
	w, err := parseWelcome(&wb)
	switch {
	case err != nil:
		return w, err
	case w.Status != refusedNothing:
		return w, fmt.Errorf("node %d: %w", w.Node, w.Status)
	case w.Version == 0 || w.Version > handshakeVersion:
		return w, refusedVersion
	case w.Secret != h.Secret:
		return w, refusedSecret
	case r != roleJoin && w.Node != to:
		return w, refusedNode
	}
	proof := prove(p.secret, labelDial, &hb, &wb, p.channel)
	if _, err := c.Write(proof[:]); err != nil {
		return w, err
	}
	var verdict [verdictSize]byte
	if _, err := io.ReadFull(c, verdict[:]); err != nil {
		return w, fmt.Errorf("no verdict in the handshake: %w", err)
	}
	if s := refusal(verdict[0]); s != refusedNothing {
		return w, fmt.Errorf("node %d: %w", w.Node, s)
	}
	want := prove(p.secret, labelAccept, &hb, &wb, p.channel)
	if !hmac.Equal(verdict[1:], want[:]) {
		return w, refusedSecret
	}
	return w, nil
}

// accept is the handshake of who accepted. Without error the other side is a member of the cluster
// (or a node that wants to be, with roleJoin) that holds the secret, if there is one.
func (p *party) accept(c io.ReadWriter) (hello, error) {
	var hb [helloSize]byte
	// The magic alone first: who speaks something else is told from who is slow.
	if _, err := io.ReadFull(c, hb[:4]); err != nil {
		return hello{}, err
	}
	if [4]byte(hb[:4]) != handshakeMagic {
		return hello{}, foreign([4]byte(hb[:4]))
	}
	if _, err := io.ReadFull(c, hb[4:]); err != nil {
		return hello{}, err
	}
	h, err := parseHello(&hb)
	if err != nil {
		return hello{}, err
	}
	w := welcome{Version: min(h.Version, handshakeVersion), Status: p.judge(&h), Secret: len(p.secret) > 0,
		Node: p.node, Incarnation: p.incarnation}
	if _, err := io.ReadFull(p.random, w.Nonce[:]); err != nil {
		return hello{}, err
	}
	wb := w.encode()
	if _, err := c.Write(wb[:]); err != nil {
		return hello{}, err
	}
	if w.Status != refusedNothing {
		return h, fmt.Errorf("node %d of cluster %q: %w", h.From, h.Cluster, w.Status)
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return h, fmt.Errorf("no proof in the handshake: %w", err)
	}
	want := prove(p.secret, labelDial, &hb, &wb, p.channel)
	status := refusedNothing
	if !hmac.Equal(proof[:], want[:]) {
		status = refusedSecret
	} else if p.admit != nil {
		status = p.admit(&h)
	}
	verdict := [verdictSize]byte{uint8(status)}
	if status == refusedNothing {
		mine := prove(p.secret, labelAccept, &hb, &wb, p.channel)
		copy(verdict[1:], mine[:])
	}
	if _, err := c.Write(verdict[:]); err != nil {
		return h, err
	}
	if status != refusedNothing {
		return h, fmt.Errorf("node %d: %w", h.From, status)
	}
	return h, nil
}

// judge looks at what a hello claims.
func (p *party) judge(h *hello) refusal {
	switch {
	case h.Secret != (len(p.secret) > 0):
		return refusedSecret
	case h.Role == roleJoin:
		return refusedNothing
	case p.cluster == "" || h.Cluster != p.cluster:
		return refusedCluster
	case h.To != p.node || h.From == p.node || h.From < 0:
		return refusedNode
	default:
		return refusedNothing
	}
}

// foreign names what else knocks on the port.
func foreign(b [4]byte) error {
	switch s := string(b[:]); {
	case b[0] == 0x16 && b[1] == 3:
		return errors.New("TLS on a listener that has none")
	case s == "GET " || s == "POST" || s == "HEAD" || s == "PUT " || s == "OPTI":
		return errors.New("an HTTP request")
	default:
		return errNoHandshake
	}
}
