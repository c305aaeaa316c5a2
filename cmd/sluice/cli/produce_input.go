package cli

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// source gives the function that reads the next record of the input; io.EOF ends it.
func (o *produceFlags) source(in io.Reader) (func() (*kgo.Record, error), error) {
	headers, err := o.headerList()
	if err != nil {
		return nil, err
	}
	next, err := o.layout(in)
	if err != nil {
		return nil, err
	}
	return func() (*kgo.Record, error) {
		r, err := next()
		if err != nil {
			return nil, err
		}
		if o.keySet {
			r.Key = []byte(o.key)
		}
		if o.tombstone && len(r.Value) == 0 {
			r.Value = nil
		}
		if o.partition >= 0 {
			r.Partition = o.partition
		}
		r.Headers = append(r.Headers, headers...)
		return r, nil
	}, nil
}

// layout reads by -f, or line by line.
func (o *produceFlags) layout(in io.Reader) (func() (*kgo.Record, error), error) {
	if o.format != "" {
		if o.keyDelim != "" || o.delimSet {
			return nil, usagef("-f says all about the input; drop -K and -D")
		}
		rr, err := kgo.NewRecordReader(in, readLayout(o.format))
		if err != nil {
			return nil, usagef("-f %q: %w", o.format, err)
		}
		return rr.ReadRecord, nil
	}
	if o.keyDelim != "" && o.keySet {
		return nil, usagef("-k and -K exclude each other")
	}
	end, between := []byte(unescape(o.delim)), []byte(unescape(o.keyDelim))
	if len(end) == 0 {
		return nil, usagef("-D needs something that ends a record")
	}
	r := bufio.NewReaderSize(in, 64<<10)
	return func() (*kgo.Record, error) {
		line, err := readUntil(r, end)
		if err != nil {
			return nil, err
		}
		rec := &kgo.Record{Value: line}
		if len(between) > 0 {
			// A line without the delimiter is a value without a key, as with kcat.
			if k, v, ok := bytes.Cut(line, between); ok {
				rec.Key, rec.Value = k, v
			}
		}
		return rec, nil
	}, nil
}

// readUntil reads up to a delimiter and leaves it out. The last record needs none.
func readUntil(r *bufio.Reader, end []byte) ([]byte, error) {
	line := []byte{} // an empty line is an empty value, not null
	for {
		part, err := r.ReadSlice(end[len(end)-1])
		line = append(line, part...)
		switch {
		case bytes.HasSuffix(line, end):
			return line[:len(line)-len(end)], nil
		case err == io.EOF && len(line) > 0:
			return line, nil
		case err != nil && err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// headerList reads -H key=value; with no '=' a ':' divides, as rpk writes it.
func (o *produceFlags) headerList() ([]kgo.RecordHeader, error) {
	var out []kgo.RecordHeader
	for _, h := range o.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok {
			k, v, ok = strings.Cut(h, ":")
		}
		if !ok || k == "" {
			return nil, usagef("-H %q is not key=value", h)
		}
		out = append(out, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return out, nil
}

func mapKeys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// timeText is a time in milliseconds for people.
func timeText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
