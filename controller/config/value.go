package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sentence is an error in Kafka's own words, which tools and tests compare.
type sentence string

// Error gives the words.
func (s sentence) Error() string { return string(s) }

// invalid is Kafka's sentence for a bad value.
func invalid(name, value, text string) error {
	return sentence(fmt.Sprintf("Invalid value %s for configuration %s: %s", value, name, text))
}

// parseType checks value against a type and gives the canonical spelling.
func parseType(name string, t Type, value string) (string, error) {
	trimmed := strings.TrimSpace(value)
	switch t {
	case Bool:
		if lower := strings.ToLower(trimmed); lower == "true" || lower == "false" {
			return lower, nil
		}
		return "", invalid(name, value, "Expected value to be either true or false")
	case Short, Int, Long:
		bits := map[Type]int{Short: 16, Int: 32, Long: 64}[t]
		n, err := strconv.ParseInt(trimmed, 10, bits)
		if err != nil {
			return "", invalid(name, value, "Not a number of type "+t.String())
		}
		return strconv.FormatInt(n, 10), nil
	case Double:
		f, err := parseDouble(trimmed)
		if err != nil {
			return "", invalid(name, value, "Not a number of type "+t.String())
		}
		return formatDouble(f), nil
	case List:
		return canonicalList(name, trimmed)
	case Password:
		return value, nil
	default:
		return trimmed, nil
	}
}

// canonicalList trims the items and refuses empty ones; an empty list is fine.
func canonicalList(name, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	items := strings.Split(value, ",")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
		if items[i] == "" {
			return "", sentence("Configuration '" + name + "' values must not be empty.")
		}
	}
	return strings.Join(items, ","), nil
}

// splitList gives the items of a canonical list.
func splitList(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// unique drops later copies and keeps the order.
func unique(items []string) []string {
	var out []string
	for _, item := range items {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// parseDouble reads what Java's Double.parseDouble reads, but no NaN: nothing can be compared
// with it.
func parseDouble(s string) (float64, error) {
	if strings.ContainsRune(s, '_') {
		return 0, errors.New("not a number")
	}
	hex := strings.HasPrefix(strings.TrimLeft(strings.ToLower(s), "+-"), "0x")
	if !hex && len(s) > 1 && strings.ContainsAny(s[len(s)-1:], "dDfF") {
		if last := s[len(s)-2]; last == '.' || (last >= '0' && last <= '9') {
			s = s[:len(s)-1]
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) {
		return 0, errors.New("not a number")
	}
	return f, nil
}

// formatDouble spells f as Java's Double.toString does: 0.5, 1.0E10, 1.7976931348623157E308.
func formatDouble(f float64) string {
	switch abs := math.Abs(f); {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case abs == 0 || (abs >= 1e-3 && abs < 1e7):
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.ContainsRune(s, '.') {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.ContainsRune(mantissa, '.') {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

// Valid is a bound on values; the zero value bounds nothing.
type Valid struct {
	// Text shows the bound as Kafka's documentation does: "[1,...]".
	Text string
	// check gets a value of the right type in canonical spelling.
	check func(name, value string) error
}

func atLeast(low int64) Valid {
	return Valid{Text: fmt.Sprintf("[%d,...]", low), check: rangeCheck(&low, nil)}
}

func between(low, high int64) Valid {
	return Valid{Text: fmt.Sprintf("[%d,...,%d]", low, high), check: rangeCheck(&low, &high)}
}

func rangeCheck(low, high *int64) func(name, value string) error {
	return func(name, value string) error {
		n, _ := strconv.ParseInt(value, 10, 64)
		if low != nil && n < *low {
			return invalid(name, value, fmt.Sprintf("Value must be at least %d", *low))
		}
		if high != nil && n > *high {
			return invalid(name, value, fmt.Sprintf("Value must be no more than %d", *high))
		}
		return nil
	}
}

// fraction bounds a double to 0 up to and including high.
func fraction(high float64) Valid {
	text := strconv.FormatFloat(high, 'g', -1, 64)
	return Valid{Text: "[0,...," + text + "]", check: func(name, value string) error {
		f, _ := parseDouble(value)
		if f < 0 {
			return invalid(name, value, "Value must be at least 0")
		}
		if f > high {
			return invalid(name, value, "Value must be no more than "+text)
		}
		return nil
	}}
}

// oneOf bounds a string, or each item of a list, to a set of words.
func oneOf(words ...string) Valid {
	all := strings.Join(words, ", ")
	return Valid{Text: "[" + all + "]", check: func(name, value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		return invalid(name, value, "String must be one of: "+all)
	}}
}

func eachOf(words ...string) Valid {
	one := oneOf(words...)
	return Valid{Text: one.Text, check: func(name, value string) error {
		for _, item := range splitList(value) {
			if err := one.check(name, item); err != nil {
				return err
			}
		}
		return nil
	}}
}

// oneOfFold is oneOf without regard to case.
func oneOfFold(words ...string) Valid {
	all := strings.Join(words, ", ")
	return Valid{Text: "(case insensitive) [" + all + "]", check: func(name, value string) error {
		for _, w := range words {
			if strings.EqualFold(w, value) {
				return nil
			}
		}
		return invalid(name, value, "String must be one of (case insensitive): "+all)
	}}
}

// gzipLevel is -1, the codec's own choice, or 1 to 9.
func gzipLevel() Valid {
	return Valid{Text: "[1,...,9] or -1", check: func(name, value string) error {
		if n, _ := strconv.Atoi(value); n == -1 || (n >= 1 && n <= 9) {
			return nil
		}
		return invalid(name, value, "Value must be between 1 and 9 or equal to -1")
	}}
}

// throttledReplicas is "*" or pairs of partition and broker (KIP-73).
func throttledReplicas() Valid {
	const format = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
	return Valid{Text: format, check: func(name, value string) error {
		if value == "*" {
			return nil
		}
		for _, item := range splitList(value) {
			partition, broker, ok := strings.Cut(item, ":")
			if !ok || !digits(partition) || !digits(broker) {
				shown := "[" + strings.ReplaceAll(value, ",", ", ") + "]"
				return invalid(name, shown, name+" must be the literal '*' or a list of replicas in "+
					"the following format: "+format)
			}
		}
		return nil
	}}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// noTieredStorage refuses to switch on what is not there.
func noTieredStorage(name, value string) error {
	if value == "true" {
		return sentence("Tiered Storage functionality is disabled in the broker. " +
			"Topic cannot be configured with remote log storage.")
	}
	return nil
}
