package cli

import (
	"testing"
	"time"
)

func TestParseRange(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ms := func(y int, m time.Month, d, h, mi int) int64 {
		return time.Date(y, m, d, h, mi, 0, 0, time.UTC).UnixMilli()
	}
	at := func(n int64) position { return position{atTime, n} }
	end, begin := position{whence: fromEnd}, position{whence: fromStart}
	for _, c := range []struct {
		text string
		want offsetRange
	}{
		{"start", offsetRange{from: begin}},
		{"oldest", offsetRange{from: begin}},
		{"beginning", offsetRange{from: begin}},
		{"end", offsetRange{from: end}},
		{"Latest", offsetRange{from: end}},
		{"100", offsetRange{from: position{exactly, 100}}},
		{"+5", offsetRange{from: position{fromStart, 5}}},
		{"-10", offsetRange{from: position{fromEnd, -10}}},
		{"100:200", offsetRange{position{exactly, 100}, position{exactly, 200}, true}},
		{"start:end", offsetRange{begin, end, true}},
		{":end", offsetRange{begin, end, true}},
		{"5:", offsetRange{position{exactly, 5}, end, true}},
		{"-10:end", offsetRange{position{fromEnd, -10}, end, true}},
		{"-10:-5", offsetRange{position{fromEnd, -10}, position{fromEnd, -5}, true}},
		{"+5:+3", offsetRange{position{fromStart, 5}, position{afterFrom, 3}, true}},
		{"@-1h", offsetRange{from: at(ms(2026, 3, 1, 11, 0))}},
		{"@-2d", offsetRange{from: at(ms(2026, 2, 27, 12, 0))}},
		{"@now", offsetRange{from: at(ms(2026, 3, 1, 12, 0))}},
		{"@1767225600000", offsetRange{from: at(ms(2026, 1, 1, 0, 0))}},
		{"@1767225600", offsetRange{from: at(ms(2026, 1, 1, 0, 0))}},
		{"@2026-01-01", offsetRange{from: at(ms(2026, 1, 1, 0, 0))}},
		{"@2026-01-01T10:30", offsetRange{from: at(ms(2026, 1, 1, 10, 30))}},
		{"@2026-01-01T10:30:00+02:00", offsetRange{from: at(ms(2026, 1, 1, 8, 30))}},
		{"@2026-01-01:1h", offsetRange{at(ms(2026, 1, 1, 0, 0)), at(ms(2026, 1, 1, 1, 0)), true}},
		{"@2026-01-01T10:30:1h", offsetRange{at(ms(2026, 1, 1, 10, 30)), at(ms(2026, 1, 1, 11, 30)), true}},
		{"@2026-01-01:@2026-01-02", offsetRange{at(ms(2026, 1, 1, 0, 0)), at(ms(2026, 1, 2, 0, 0)), true}},
		{"@-2h:-1h", offsetRange{at(ms(2026, 3, 1, 10, 0)), at(ms(2026, 3, 1, 11, 0)), true}},
		{"@-1h:end", offsetRange{at(ms(2026, 3, 1, 11, 0)), end, true}},
		{"@-1h:", offsetRange{at(ms(2026, 3, 1, 11, 0)), end, true}},
	} {
		got, err := parseRange(c.text, now)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{
		"", "x", "1:x", "5:3", "1:2:3", "@", "@x", "@-1h:-2h", "@2026-13-01", "9223372036854775808", "+", "-",
	} {
		if got, err := parseRange(text, now); err == nil || codeOf(err) != exitUsage {
			t.Errorf("%q: %+v, %v; want a usage error", text, got, err)
		}
	}
}

// FuzzParseRange: no input panics, and what is taken is consistent.
func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"start", "-10:end", "@-1h:30m", "@2026-01-01T10:30:1h", "+5:+3", "@1:2"} {
		f.Add(s)
	}
	now := time.UnixMilli(1_800_000_000_000)
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRange(s, now)
		if err == nil && !r.bounded && r.to != (position{}) {
			t.Fatalf("%q has an end and is not bounded: %+v", s, r)
		}
	})
}
