package tidy

import (
	"go/ast"
	"regexp"
	"strconv"
	"testing"
)

// rowsWaiting are the behaviours that are not served yet, with what they wait for.
var rowsWaiting = map[int]string{
	18: "transactions: adding partitions to one",
	20: "transactions: version 2 of the protocol (KIP-890)",
	21: "transactions: what EndTxn answers",
	58: "KIP-848 groups",
	61: "quotas", 62: "quotas", 63: "SASL", 64: "ACLs and delegation tokens",
}

const lastRow = 67

var (
	rowName = regexp.MustCompile(`^Test.*?Row(\d\d)(?:To(\d\d))?((?:And\d\d)*)`)
	rowAlso = regexp.MustCompile(`\d\d`)
)

// TestRows wants a test for each numbered behaviour that clients rely on, by its name: TestRow07…,
// TestRow65And66…, TestRow13To15….
func TestRows(t *testing.T) {
	tested := map[int]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			for _, row := range rowsOf(fn.Name.Name) {
				tested[row] = true
			}
		}
	}
	for row := 1; row <= lastRow; row++ {
		if rowsWaiting[row] == "" && !tested[row] {
			t.Errorf("row %d has no test named after it", row)
		}
	}
}

// rowsOf reads the rows that a test's name gives.
func rowsOf(name string) []int {
	m := rowName.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n } // 0 for none
	rows := []int{number(m[1])}
	for row := rows[0] + 1; row <= number(m[2]); row++ {
		rows = append(rows, row)
	}
	for _, also := range rowAlso.FindAllString(m[3], -1) {
		rows = append(rows, number(also))
	}
	return rows
}
