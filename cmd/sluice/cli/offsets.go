package cli

import (
	"strconv"
	"strings"
	"time"
)

// whence is what an offset counts from.
type whence int8

const (
	fromStart whence = iota // of the log: start, +5
	fromEnd                 // of the log: end, -10
	exactly                 // 100
	atTime                  // @-1h
	afterFrom               // as an end: +5 behind the beginning of the range
)

// position is one end of a range. n is an offset, a distance, or a time in milliseconds.
type position struct {
	whence whence
	n      int64
}

// offsetRange is what -o says: from, and where it stops.
type offsetRange struct {
	from, to position
	bounded  bool
}

// parseRange reads an offset or range, as rpk writes them:
//
//	start  end  +5  -10  100           from there on
//	100:200  start:end  :end  -10:end  +5:+3  up to, not including, the end
//	@-1h  @2026-01-01  @1767225600000  @2026-01-01:1h  @-2h:-1h  @-1h:end   by time
func parseRange(s string, now time.Time) (offsetRange, error) {
	text := strings.TrimSpace(s)
	if times, ok := strings.CutPrefix(text, "@"); ok {
		return parseTimes(times, now)
	}
	var r offsetRange
	head, tail, bounded := strings.Cut(text, ":")
	if head == "" {
		head = "start"
	}
	var ok bool
	if r.from, ok = parsePosition(head); !ok || text == "" {
		return r, badOffset(s)
	}
	if !bounded {
		return r, nil
	}
	r.bounded = true
	if tail == "" {
		tail = "end"
	}
	if r.to, ok = parsePosition(tail); !ok {
		return r, badOffset(s)
	}
	if strings.HasPrefix(tail, "+") {
		r.to.whence = afterFrom
	}
	if r.from.whence == exactly && r.to.whence == exactly && r.to.n < r.from.n {
		return r, usagef("offsets %q end before they begin", s)
	}
	return r, nil
}

func badOffset(s string) error {
	return usagef("%q is no offset: start, end, 100, +5, -10, 100:200, @-1h or @2026-01-01:1h", s)
}

func parsePosition(s string) (position, bool) {
	switch strings.ToLower(s) {
	case "start", "oldest", "earliest", "beginning":
		return position{whence: fromStart}, true
	case "end", "newest", "latest":
		return position{whence: fromEnd}, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return position{}, false
	case s[0] == '+':
		return position{fromStart, n}, true
	case s[0] == '-':
		return position{fromEnd, n}, true
	}
	return position{exactly, n}, true
}

// parseTimes reads what stands behind '@'. A time may hold colons itself, so each is tried as the
// divider.
func parseTimes(s string, now time.Time) (offsetRange, error) {
	if ms, ok := parseTime(s, now, now); ok {
		return offsetRange{from: position{atTime, ms}}, nil
	}
	for i, c := range s {
		if c != ':' {
			continue
		}
		from, ok := parseTime(s[:i], now, now)
		if !ok {
			continue
		}
		r := offsetRange{from: position{atTime, from}, bounded: true}
		tail := strings.TrimPrefix(s[i+1:], "@")
		if tail == "" || strings.EqualFold(tail, "end") {
			r.to = position{whence: fromEnd}
			return r, nil
		}
		if to, ok := parseTime(tail, time.UnixMilli(from), now); ok {
			if to < from {
				return r, usagef("times \"@%s\" end before they begin", s)
			}
			r.to = position{atTime, to}
			return r, nil
		}
	}
	return offsetRange{}, usagef("\"@%s\" is no time: -1h, 2026-01-01, 2026-01-01T12:00:00Z, or "+
		"milliseconds since 1970", s)
}

// parseTime reads one time. A duration counts from base; a negative one always from now.
func parseTime(s string, base, now time.Time) (ms int64, ok bool) {
	if s == "now" {
		return now.UnixMilli(), true
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && s[0] != '+' && s[0] != '-' {
		if len(s) <= 10 {
			return n * 1000, true // seconds
		}
		return n, true
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	d, ok := parseDuration(s)
	if !ok {
		return 0, false
	}
	if d < 0 {
		base = now
	}
	return base.Add(d).UnixMilli(), true
}

// parseDuration is time.ParseDuration with days.
func parseDuration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		return time.Duration(n * 24 * float64(time.Hour)), err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}
