package docs

import (
	"strings"

	"github.com/sluicelog/sluice/cmd/sluice/admin"
)

// metricFamilies lists every metric of the broker.
func metricFamilies() (string, error) {
	t := newTable("metric", "kind", "labels", "meaning")
	for _, f := range admin.Families {
		t.row(code(f.Name), string(f.Kind), strings.Join(f.Labels, ", "), f.Help)
	}
	return t.String(), nil
}
