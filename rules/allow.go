package rules

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxLimits is the maximum number of amounts of the live limits that apply to one request, and of the shadow limits.
const maxLimits = 32

// placedAmount is an amount and its place, for checks against other keys of the limit.
type placedAmount struct {
	value  value
	amount Amount
}

// allow decodes an amount, a list of amounts, or a map from tiers to these.
func (d *decoder) allow(v value) Allow {
	if v.Kind != yaml.MappingNode {
		return Allow{Amounts: d.amountList(v)}
	}
	var a Allow
	if !d.isMap(v, example("tiers and their amounts")) {
		return a
	}
	d.tierMaps = append(d.tierMaps, v)
	for e := range v.entries() {
		if d.refused[e.key.Node] {
			continue
		}
		if name, ok := d.name(e.key.at(e.value)); ok {
			a.Tiers = append(a.Tiers, TierAmounts{name, d.amountList(e.value)})
		}
	}
	return a
}

// amountList decodes amounts that must all admit a request.
func (d *decoder) amountList(v value) []Amount {
	if d.splitCount(v) {
		return nil
	}
	if v.size() > maxLimits {
		d.fail(v, fmt.Sprintf("the list has more than %d amounts", maxLimits), "")
		return nil
	}
	var amounts []Amount
	d.list(v, func(item value) {
		amount, ok := d.amount(item)
		if ok {
			d.checkList(item, amount, amounts, v.size())
			amounts = append(amounts, amount)
		}
	})
	return amounts
}

// amount decodes one amount.
func (d *decoder) amount(v value) (Amount, bool) {
	text, ok := d.text(v)
	if !ok {
		return Amount{}, false
	}
	amount, err := ParseAmount(text)
	if err != nil {
		d.fail(v, err.Error(), "")
		return Amount{}, false
	}
	d.amounts = append(d.amounts, placedAmount{v, amount})
	return amount, true
}

// checkList checks an amount against the amounts before it in a list of n amounts.
func (d *decoder) checkList(v value, amount Amount, before []Amount, n int) {
	if amount.Kind != Rate && n > 1 {
		d.fail(v, fmt.Sprintf("%q must be the only amount", amount), "remove the others")
	}
	for _, other := range before {
		if other.Kind == Rate && amount.Kind == Rate && samePeriod(other.Per, amount.Per) {
			d.fail(v, fmt.Sprintf("%q has the same period as %q", amount, other), "remove one of them")
		}
	}
}

// samePeriod reports whether two periods have the same length.
func samePeriod(p, q Period) bool {
	d, fixed := p.Duration()
	e, alsoFixed := q.Duration()
	return p == q || fixed && alsoFixed && d == e
}

// hasFixedLength reports whether a period has a length that does not depend on the calendar.
func hasFixedLength(p Period) bool {
	_, fixed := p.Duration()
	return fixed
}

// splitCount refuses a list in brackets in which YAML has split a count at its commas: [100,000 per day] is the list
// of "100" and "000 per day".
func (d *decoder) splitCount(v value) bool {
	if v.Style&yaml.FlowStyle == 0 {
		return false
	}
	items := v.items()
	for i := range items {
		if parts := splitParts(items[i:]); len(parts) > 1 {
			d.fail(items[i], fmt.Sprintf("the list is split at the comma after %q", clip(parts[0])),
				fmt.Sprintf(`write "%s" in quotes, or %s`, clip(strings.Join(parts, ",")), clip(strings.Join(parts, "_"))))
			return true
		}
	}
	return false
}

// splitParts returns the texts at the start of a list that are parts of one amount. After a burst, the next item can also
// be an amount of its own: it is not a part then.
func splitParts(items []value) (parts []string) {
	words := strings.Fields(items[0].Value)
	if len(words) == 0 || !isDigits(words[len(words)-1]) {
		return nil
	}
	burst := len(words) > 1
	if burst && !strings.EqualFold(words[len(words)-2], "burst") {
		return nil
	}
	parts = append(parts, items[0].Value)
	for _, item := range items[1:] {
		group, rest := splitNumber(item.Value)
		_, err := ParseAmount(item.Value)
		if len(group) != 3 || !isDigits(group) || burst && err == nil {
			break
		}
		parts = append(parts, item.Value)
		if rest != "" {
			break
		}
	}
	return parts
}

// isDigits reports whether a text has only decimal digits, and at least one.
func isDigits(text string) bool { return text != "" && consistsOf(text, "0123456789") }

// banAfter decodes the number of refusals of a ban.
func (r *report) banAfter(v value) Amount {
	text, ok := r.text(v)
	if !ok {
		return Amount{}
	}
	amount, err := ParseAmount(text)
	if err != nil {
		r.fail(v, err.Error(), "")
		return Amount{}
	}
	if amount.Kind != Rate || amount.Burst != 0 || !hasFixedLength(amount.Per) {
		r.fail(v, fmt.Sprintf("%q is not a number of refusals per period", amount),
			"write a count and a period of at most weeks, such as 20 per hour")
	}
	return amount
}
