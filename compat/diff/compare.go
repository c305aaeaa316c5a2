package diff

import (
	"fmt"
	"strings"
)

// difference is one value in which two brokers' answers part. A struct or step that only one of them
// has is one difference, with "present" and "absent" for values.
type difference struct {
	place string // file/case#step
	path  string // Topics[$t].Partitions[0].ErrorCode
	kafka string
	ours  string
}

func (d difference) String() string {
	return fmt.Sprintf("%s | %s | %s | %s", d.place, d.path, d.kafka, d.ours)
}

const (
	present = "present"
	absent  = "absent"
)

// compare lists the differences between what Kafka did in a case and what we did.
func compare(kafka, ours transcript) []difference {
	var out []difference
	for i := range max(len(kafka.steps), len(ours.steps)) {
		place := fmt.Sprintf("%s#%d", kafka.name, i+1)
		switch {
		case i >= len(ours.steps):
			out = append(out, difference{place, "step", present, absent})
		case i >= len(kafka.steps):
			out = append(out, difference{place, "step", absent, present})
		case kafka.steps[i].label != ours.steps[i].label:
			out = append(out, difference{place, "step", kafka.steps[i].label, ours.steps[i].label})
		default:
			out = append(out, compareSteps(place, kafka.steps[i], ours.steps[i])...)
		}
	}
	return out
}

// compareSteps compares two answers. Where one broker answered and the other did not, only that is
// reported.
func compareSteps(place string, kafka, ours step) []difference {
	if a, b := outcomeOf(kafka), outcomeOf(ours); a != b {
		return []difference{{place, "outcome", a, b}}
	}
	var out []difference
	mine := map[string]group{}
	for _, g := range ours.groups {
		mine[g.path] = g
	}
	theirs := map[string]bool{}
	missing := map[string]bool{}
	for _, g := range kafka.groups {
		theirs[g.path] = true
		o, ok := mine[g.path]
		if !ok && (g.path == "" || g.path == ".") {
			ok = true // a group without fields is not written
		}
		if !ok {
			if !coveredBy(missing, g.path) {
				out = append(out, difference{place, g.path, present, absent})
			}
			missing[g.path] = true
			continue
		}
		out = append(out, compareFields(place, g, o)...)
	}
	extra := map[string]bool{}
	for _, g := range ours.groups {
		if theirs[g.path] {
			continue
		}
		if g.path == "" || g.path == "." {
			out = append(out, compareFields(place, group{path: g.path}, g)...)
			continue
		}
		if !coveredBy(extra, g.path) {
			out = append(out, difference{place, g.path, absent, present})
		}
		extra[g.path] = true
	}
	return out
}

func outcomeOf(s step) string {
	for _, g := range s.groups {
		if g.path != "." {
			continue
		}
		for _, f := range g.fields {
			if f.name == "outcome" {
				return f.value
			}
		}
	}
	return outcomeAnswer
}

// coveredBy says whether a struct that contains path is among paths.
func coveredBy(paths map[string]bool, path string) bool {
	for p := range paths {
		if strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[") {
			return true
		}
	}
	return false
}

func compareFields(place string, kafka, ours group) []difference {
	var out []difference
	mine := map[string]string{}
	for _, f := range ours.fields {
		mine[f.name] = f.value
	}
	path := func(name string) string {
		if kafka.path == "" || kafka.path == "." {
			return name
		}
		return kafka.path + "." + name
	}
	for _, f := range kafka.fields {
		value, ok := mine[f.name]
		if !ok {
			value = absent
		}
		if value != f.value {
			out = append(out, difference{place, path(f.name), f.value, value})
		}
		delete(mine, f.name)
	}
	for _, f := range ours.fields {
		if value, ok := mine[f.name]; ok {
			out = append(out, difference{place, path(f.name), absent, value})
		}
	}
	return out
}
