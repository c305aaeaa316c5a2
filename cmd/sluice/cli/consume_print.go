package cli

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// printer writes records in the form asked for. It gathers those of one poll and writes them at once.
type printer struct {
	e      *env
	buf    bytes.Buffer
	line   []byte
	format *formatter
	indent string
}

func newPrinter(e *env, o *consumeFlags) (*printer, error) {
	p := &printer{e: e}
	switch o.form {
	case formJSON:
		p.indent = "  "
	case formLines:
	default:
		var err error
		p.format, err = newFormatter(o.format, o.null)
		return p, err
	}
	return p, nil
}

func (p *printer) add(fp *kgo.FetchPartition, r *kgo.Record) error {
	if p.format == nil {
		return writeJSON(&p.buf, recordRowOf(r), p.indent)
	}
	p.line = p.format.append(p.line[:0], fp, r)
	_, err := p.buf.Write(p.line)
	return err
}

func (p *printer) flush() error {
	if p.buf.Len() == 0 {
		return nil
	}
	_, err := p.e.stdout.Write(p.buf.Bytes())
	p.buf.Reset()
	return err
}

// recordRow is a record as JSON. Bytes that are not UTF-8 are given as base64, and said to be.
type recordRow struct {
	Topic         string      `json:"topic"`
	Partition     int32       `json:"partition"`
	Offset        int64       `json:"offset"`
	TimestampMs   int64       `json:"timestamp_ms"`
	TimestampType string      `json:"timestamp_type"`
	Key           *string     `json:"key"`
	KeyEncoding   string      `json:"key_encoding,omitempty"`
	Value         *string     `json:"value"`
	ValueEncoding string      `json:"value_encoding,omitempty"`
	Headers       []headerRow `json:"headers"`
}

type headerRow struct {
	Key      string  `json:"key"`
	Value    *string `json:"value"`
	Encoding string  `json:"value_encoding,omitempty"`
}

func recordRowOf(r *kgo.Record) recordRow {
	row := recordRow{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		TimestampMs: r.Timestamp.UnixMilli(), TimestampType: "create", Headers: []headerRow{},
	}
	if r.Attrs.TimestampType() == 1 {
		row.TimestampType = "append"
	}
	row.Key, row.KeyEncoding = jsonText(r.Key)
	row.Value, row.ValueEncoding = jsonText(r.Value)
	for _, h := range r.Headers {
		hr := headerRow{Key: h.Key}
		hr.Value, hr.Encoding = jsonText(h.Value)
		row.Headers = append(row.Headers, hr)
	}
	return row
}

func jsonText(b []byte) (text *string, encoding string) {
	if b == nil {
		return nil, ""
	}
	s := string(b)
	if !utf8.Valid(b) {
		s, encoding = base64.StdEncoding.EncodeToString(b), "base64"
	}
	return &s, encoding
}
