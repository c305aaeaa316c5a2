package cli

import (
	"bufio"
	"fmt"
	"strings"
)

// confirm asks before something is destroyed. Where nobody can be asked --yes must have been given.
// With dryRun it only says what would happen. ok tells whether to go on.
func (e *env) confirm(verb string, what []string, yes, dryRun bool) (ok bool, err error) {
	switch {
	case dryRun:
		for _, w := range what {
			writeTo(e.stdout, "would %s %s\n", verb, w)
		}
		return false, nil
	case yes:
		for _, w := range what {
			e.say("%s %s", verb, w)
		}
		return true, nil
	case !e.interactive():
		return false, usagef("would %s %s; pass --yes to do it, as nobody can be asked here", verb,
			strings.Join(what, "; "))
	}
	for _, w := range what {
		writeTo(e.stderr, "%s %s\n", verb, w)
	}
	writeTo(e.stderr, "This cannot be undone. Type yes to go on: ")
	line, _ := bufio.NewReader(e.stdin).ReadString('\n') // the end of the input is a no
	if strings.TrimSpace(line) != "yes" {
		return false, failf(exitFailed, "not confirmed; nothing was changed")
	}
	return true, nil
}

// interactive tells whether somebody can be asked.
func (e *env) interactive() bool {
	return e.asked || isTerminal(e.stdin) && isTerminal(e.stderr)
}

// count is a number with its noun: "1 partition", "12 partitions".
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// bytesText is a size for people, in powers of 1000: "3.1 GB".
func bytesText(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/1000, "kMGTPE"
	for value >= 999.95 && len(units) > 1 {
		value, units = value/1000, units[1:]
	}
	return fmt.Sprintf("%.1f %cB", value, units[0])
}
