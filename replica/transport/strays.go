package transport

import (
	"net"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

const (
	strayEvery = time.Minute
	strayMax   = 1024
)

// strays lets one log line per address and minute pass.
type strays struct {
	clock clock.Clock

	mu struct {
		sync.Mutex
		seen map[string]time.Time
	}
}

// first reports whether the address was quiet for a minute.
func (s *strays) first(a net.Addr) bool {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.String()
	}
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.mu.seen[host]; ok && now.Sub(last) < strayEvery {
		return false
	}
	if s.mu.seen == nil || len(s.mu.seen) >= strayMax {
		s.mu.seen = map[string]time.Time{}
	}
	s.mu.seen[host] = now
	return true
}
