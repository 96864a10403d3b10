package rules

import (
	"fmt"
	"strings"
	"time"
)

// Describe returns text with a line for each limit of the domain: whether it applies to a request at a time, and with
// which amounts, or why it does not apply. The errors are those of Match.
func (x *Domain) Describe(request Attributes, now time.Time) (string, error) {
	matches, err := x.Match(request, now)
	if err != nil {
		return "", err
	}
	return describeMatches(x.Explain(request, now), matches), nil
}

// describeMatches returns a line for each limit of a domain, and the amounts of those that apply.
func describeMatches(list []Explanation, matches []Match) string {
	var b strings.Builder
	end := endOf(matches)
	for _, e := range list {
		if e.Unmet != "" {
			fmt.Fprintf(&b, "%s does not apply: %s\n", e.Limit, e.Unmet)
			continue
		}
		if len(matches) == 0 || matches[0].Limit == nil || matches[0].Limit.Name != e.Limit {
			fmt.Fprintf(&b, "%s applies, in shadow, but is left out: more than %d amounts of shadow limits apply\n", e.Limit, maxLimits)
			continue
		}
		fmt.Fprintf(&b, "%s applies%s: %s", e.Limit, inShadow(matches[0].Limit), describeMatch(matches[0]))
		if e.Override > 0 {
			fmt.Fprintf(&b, ", by override %d", e.Override)
		}
		b.WriteString("\n")
		matches = matches[1:]
	}
	b.WriteString(end)
	return b.String()
}

// endOf returns the last line of a description: the default, or a note that the request is admitted, or "".
func endOf(matches []Match) string {
	if n := len(matches); n == 0 {
		return "No limit applies: the request is admitted\n"
	} else if last := &matches[n-1]; last.Limit == nil {
		return "The default applies: " + describeMatch(*last) + "\n"
	}
	for i := range matches {
		if !matches[i].Limit.Shadow {
			return ""
		}
	}
	return "No live limit applies: the request is admitted\n"
}

// inShadow returns an addition to "applies" for a shadow limit.
func inShadow(l *Limit) string {
	if l.Shadow {
		return ", in shadow"
	}
	return ""
}

// describeMatch returns the amounts, the cost and the counted values of a limit that applies.
func describeMatch(m Match) string {
	var b strings.Builder
	for i, amount := range m.Amounts {
		if i > 0 {
			b.WriteString(" and ")
		}
		b.WriteString(amount.String())
	}
	for _, source := range m.Per {
		if source.Attribute == "" {
			b.WriteString(", for all requests without the attribute")
			continue
		}
		fmt.Fprintf(&b, ", for %s %q", source.Attribute, source.Value)
	}
	switch m.Cost {
	case 0:
		b.WriteString(", but its cost cannot be determined")
	case 1:
	default:
		fmt.Fprintf(&b, ", cost %d", m.Cost)
	}
	return b.String()
}
