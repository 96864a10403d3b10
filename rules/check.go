package rules

import (
	"errors"
	"fmt"
	"slices"
)

// checkLimit checks keys of a limit that depend on each other.
func (d *decoder) checkLimit(v value, l Limit) {
	if algorithm, ok := v.find("algorithm"); !ok || !d.refused[algorithm.Node] {
		check := amountCheck{d.report, d.amounts}
		check.checkAmounts(v, &l)
		check.checkSoft(v, &l)
		check.checkCalendar(v, l.Algorithm)
	}
	d.checkCostCases(v, &l)
	if ban, ok := v.find("ban"); ok && l.Shadow {
		d.fail(ban, "a shadow limit refuses no request, so it cannot ban", "remove the ban until shadow is removed")
	}
	if failure, ok := v.find("on_failure"); ok && l.OnFailure == FailLocal && len(l.Charge) > 0 {
		d.fail(failure, `a limit with "charge" is charged by reports, which need a leader, so a node cannot decide it alone`,
			`write on_failure: open or on_failure: closed, or remove "charge"`)
	}
}

// amountCheck checks the amounts of one limit, including those of its overrides.
type amountCheck struct {
	*report
	amounts []placedAmount
}

// checkAmounts checks that the amounts of a limit suit its algorithm and the keys that need units.
func (c amountCheck) checkAmounts(v value, l *Limit) {
	algorithm := l.Algorithm
	for _, a := range c.amounts {
		switch {
		case a.amount.Kind != Rate:
		case a.amount.Burst != 0 && !algorithm.hasBurst():
			c.fail(a.value, fmt.Sprintf("%q: the algorithm %q has no burst", a.amount, algorithm),
				`remove the burst, or use the algorithm "gcra" or "bucket"`)
		case algorithm.Kind != Fixed && isCalendar(a.amount.Per):
			c.fail(a.value, fmt.Sprintf("%q: months and years have no fixed length", a.amount),
				`write "algorithm: fixed" for calendar windows, or a period in days`)
		case isTooLong(a.amount.Per):
			c.fail(a.value, fmt.Sprintf("%q: the period is too long", a.amount), "write a shorter period")
		default:
			c.checkCounter(v, a, l)
		}
	}
}

// checkCounter refuses an amount that the algorithm of the limit cannot represent.
func (c amountCheck) checkCounter(v value, a placedAmount, l *Limit) {
	counter, err := compileCounter(l, a.amount)
	switch {
	case err == nil:
		c.checkUnits(v, l, &counter)
	case errors.Is(err, errLog):
		c.fail(a.value, fmt.Sprintf("%q: %v", a.amount, err), "write a smaller count, or another algorithm, such as sliding")
	default:
		c.fail(a.value, fmt.Sprintf("%q: %v", a.amount, err), "write a smaller count or a shorter period")
	}
}

// isTooLong reports whether a period is longer than a time.Duration, or has more than 1200 months or years.
func isTooLong(p Period) bool {
	if isCalendar(p) {
		return p.N > 1200
	}
	return !hasFixedLength(p)
}

// isCalendar reports whether the length of a period varies.
func isCalendar(p Period) bool { return p.Unit == Month || p.Unit == Year }

// checkCalendar checks that zone and anchor are used for calendar windows only.
func (c amountCheck) checkCalendar(v value, algorithm Algorithm) {
	if len(c.amounts) == 0 {
		return // the key "allow" has an error already
	}
	for _, k := range []struct {
		name  string
		units []Unit
		list  string
	}{
		{"zone", []Unit{Day, Week, Month, Year}, "days, weeks, months or years"},
		{"anchor", []Unit{Month}, "months"},
	} {
		setting, ok := v.find(k.name)
		if ok && (algorithm.Kind != Fixed || !c.hasUnit(k.units)) {
			c.fail(setting, fmt.Sprintf("%q needs fixed windows of %s", k.name, k.list),
				`write "algorithm: fixed" and such a period, or remove the key`)
		}
	}
}

// hasUnit reports whether one of the amounts of the limit has one of the units.
func (c amountCheck) hasUnit(units []Unit) bool {
	return slices.ContainsFunc(c.amounts, func(a placedAmount) bool {
		return a.amount.Kind == Rate && slices.Contains(units, a.amount.Per.Unit)
	})
}

// tierCheck checks the maps of tiers in one document.
type tierCheck struct {
	*report
	maps []value
}

// checkTiers checks that all maps of tiers in the document have the same tiers, and that the default tier is one of
// them.
func (c tierCheck) checkTiers(document value, tiers Tiers) {
	_, found := document.find("tiers")
	if found && (tiers.By == "" || tiers.Default == "") {
		return // has an error already
	}
	names := c.tierNames(tiers)
	for _, v := range c.maps {
		if !found {
			c.fail(v, "the domain has no tiers",
				`write an amount, or the key "tiers" of the domain, such as tiers: {by: tier, default: free}`)
			continue
		}
		has := v.keySet()
		if i := slices.IndexFunc(names, func(name string) bool { return !has[name] }); i >= 0 {
			c.failMissing(v, names[i], "an amount for each tier of the domain")
		}
	}
}

// tierNames returns the default tier and all tiers that have an amount somewhere in the domain, in the order of the
// file.
func (c tierCheck) tierNames(tiers Tiers) []string {
	names := []string{tiers.Default}
	seen := map[string]bool{tiers.Default: true}
	for _, v := range c.maps {
		for e := range v.entries() {
			if !seen[e.key.Value] {
				names = append(names, e.key.Value)
				seen[e.key.Value] = true
			}
		}
	}
	return names
}

// keySet returns the keys of a map.
func (v value) keySet() map[string]bool {
	set := map[string]bool{}
	for e := range v.entries() {
		set[e.key.Value] = true
	}
	return set
}
