package rules

import (
	"fmt"
	"strings"
)

// decision returns the decision as far as it is known without the units used.
func (d *description) decision() string {
	var size matchSize
	var refusals []string
	for i := range d.live {
		size = size.add(d.live[i].size())
		if reason := d.refusal(&d.live[i]); reason != "" {
			refusals = append(refusals, fmt.Sprintf("%s (%s)", d.live[i].title(), reason))
		}
	}
	switch {
	case d.err != nil:
		return "error, " + d.err.Error()
	case size.isTooLarge():
		return "error, " + size.what() + " apply to the request"
	case len(refusals) == 0:
		return "admitted" + d.conditions() + d.charges()
	case d.domain.Semantics == Envoy:
		return "refused by " + strings.Join(refusals, " and ") + ", and charged nevertheless (semantics: envoy)"
	}
	return "refused by " + strings.Join(refusals, " and ")
}

// title returns the name of a limit that applies.
func (m *Match) title() string {
	if m.Limit == nil {
		return "the default"
	}
	return m.Limit.Name
}

// size returns the size of a live limit that applies.
func (m *Match) size() matchSize {
	s := sizeOf(m.Amounts)
	if m.hasBan() {
		s.group++
	}
	return s
}

// isUnlimited reports whether the limit admits each request.
func (m *Match) isUnlimited() bool { return m.Amounts[0].Kind == Unlimited }

// hasBan reports whether a ban of the limit refuses the request.
func (m *Match) hasBan() bool { return m.Limit != nil && m.Limit.Ban.For > 0 && !m.isUnlimited() }

// isReported reports whether the limit is charged by CL.REPORT.
func (m *Match) isReported() bool { return m.Limit != nil && len(m.Limit.Charge) > 0 }

// reserves reports whether a share of the limit is not available to the request.
func (d *description) reserves(m *Match) bool {
	return m.Limit != nil && m.Limit.Priority.Share > 0 && !m.Limit.Priority.When.matches(d.domain, d.request)
}

// refusal returns why a limit refuses the request even if no units are used. It returns "" if it does not.
func (d *description) refusal(m *Match) string {
	l := m.Limit
	if l == nil {
		l = &Limit{}
	}
	reserves := d.reserves(m)
	for _, amount := range m.Amounts {
		c, err := compileCounter(l, amount)
		most := c.LimitAt(d.now, !reserves).Max
		switch {
		case amount.Kind == None:
			return "none"
		case amount.Kind == Unlimited, m.Cost <= most, err != nil: // a parsed file causes no error
		case reserves:
			return fmt.Sprintf("cost %d is more than %d, the limit without the reserved %d%%", m.Cost, most, l.Priority.Share)
		default:
			return fmt.Sprintf("cost %d is more than the limit, %d", m.Cost, most)
		}
	}
	return ""
}

// conditions returns the conditions on which the request is admitted.
func (d *description) conditions() string {
	var list []string
	for i := range d.live {
		if m := &d.live[i]; !m.isUnlimited() {
			list = append(list, d.condition(m))
		}
	}
	switch {
	case len(list) > 0:
		return " if " + strings.Join(list, " and ")
	case len(d.live) > 0:
		return ", unlimited by " + d.live[0].title()
	case d.shadow > 0:
		return ", no live limit applies"
	}
	return ", no limit applies"
}

// condition returns the condition on which a limit admits the request.
func (d *description) condition(m *Match) string {
	periods := make([]string, len(m.Amounts))
	for i, amount := range m.Amounts {
		periods[i] = fmt.Sprintf("per %v", amount.Per)
	}
	text := fmt.Sprintf("%d units remain", m.Cost)
	if m.Cost == 1 {
		text = "1 unit remains"
	}
	text += fmt.Sprintf(" of %s (%s)", m.title(), strings.Join(periods, ", "))
	if d.reserves(m) {
		text += fmt.Sprintf(" without the reserved %d%%", m.Limit.Priority.Share)
	}
	if m.Limit != nil && m.Limit.Soft > 0 {
		text += " or its soft share"
	}
	if m.hasBan() {
		text += " and no ban of it is active"
	}
	return text
}

// charges returns the limits that are charged if the request is admitted.
func (d *description) charges() string {
	var charged, reported []string
	for i := range d.live {
		switch m := &d.live[i]; {
		case m.isUnlimited():
		case m.isReported():
			reported = append(reported, fmt.Sprintf("; charged to %s by CL.REPORT with status %s", m.Limit.Name, statuses(m.Limit.Charge)))
		default:
			charged = append(charged, m.title())
		}
	}
	text := strings.Join(reported, "")
	if len(charged) == 0 {
		return text
	}
	if d.domain.Semantics == Envoy {
		return "; charged to " + strings.Join(charged, " and ") + ", also if it is refused" + text
	}
	return "; charged to " + strings.Join(charged, " and ") + text
}
