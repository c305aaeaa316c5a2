package server

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// strayInterval is the least time between two lines of one kind about one peer.
	strayInterval = time.Minute
	// strayPeers bounds the memory of the limiter. What is beyond it shares one line per interval.
	strayPeers = 4096
)

// strays logs what strangers and broken clients do, at most one line of a kind per peer address and
// interval; a line tells how many were left out before it. Behind a gateway all clients have one
// address: a health check that speaks HTTP must not hide the client that lacks TLS.
type strays struct {
	logger *slog.Logger

	mu struct {
		sync.Mutex
		peers map[strayKey]*strayPeer
		swept time.Time
	}
}

// strayKey is a peer and the line about it, which is one of a few.
type strayKey struct {
	peer netip.Addr
	msg  string
}

type strayPeer struct {
	last    time.Time
	skipped int
}

// log writes a line about the peer, or counts it as left out.
func (s *strays) log(level slog.Level, peer netip.Addr, msg string, args ...any) {
	if !s.logger.Enabled(context.Background(), level) {
		return
	}
	now := time.Now()
	s.mu.Lock()
	p := s.peerLocked(strayKey{peer, msg}, now)
	if !p.last.IsZero() && now.Sub(p.last) < strayInterval {
		p.skipped++
		s.mu.Unlock()
		return
	}
	skipped := p.skipped
	p.last, p.skipped = now, 0
	s.mu.Unlock()
	if skipped > 0 {
		args = append(args, "skipped", skipped)
	}
	s.logger.Log(context.Background(), level, msg, args...)
}

func (s *strays) peerLocked(key strayKey, now time.Time) *strayPeer {
	if s.mu.peers == nil {
		s.mu.peers = make(map[strayKey]*strayPeer)
	}
	if p := s.mu.peers[key]; p != nil {
		return p
	}
	if len(s.mu.peers) >= strayPeers && now.Sub(s.mu.swept) >= strayInterval {
		s.mu.swept = now
		for a, p := range s.mu.peers {
			if now.Sub(p.last) >= strayInterval {
				delete(s.mu.peers, a)
			}
		}
	}
	if len(s.mu.peers) >= strayPeers {
		key = strayKey{}
		if p := s.mu.peers[key]; p != nil {
			return p
		}
	}
	p := &strayPeer{}
	s.mu.peers[key] = p
	return p
}
