package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// writeTable aligns columns with two blanks between them; columns of numbers go to the right.
func writeTable(w io.Writer, head []string, rows [][]string, color bool) {
	widths := make([]int, len(head))
	right := make([]bool, len(head))
	for i, h := range head {
		widths[i], right[i] = utf8.RuneCountInString(h), len(rows) > 0
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
			right[i] = right[i] && isNumber(r[i])
		}
	}
	var b strings.Builder
	if color {
		b.WriteString("\x1b[1m")
	}
	tableRow(&b, head, widths, right)
	if color {
		b.WriteString("\x1b[0m")
	}
	b.WriteByte('\n')
	for _, r := range rows {
		tableRow(&b, r, widths, right)
		b.WriteByte('\n')
	}
	_, _ = io.WriteString(w, b.String()) // into a buffer
}

func tableRow(b *strings.Builder, cells []string, widths []int, right []bool) {
	var line strings.Builder
	for i, c := range cells {
		if i > 0 {
			line.WriteString("  ")
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
		if right[i] {
			line.WriteString(pad + c)
		} else {
			line.WriteString(c + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
}

// isNumber tells a cell that belongs to the right: digits, or "-" for a number that is not there.
func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789-") == ""
}
