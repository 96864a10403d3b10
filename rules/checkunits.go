package rules

import (
	"fmt"
	"math"
	"strconv"
)

// checkUnits refuses a constant cost that an amount never admits, and a share of priority that leaves too few of its units
// for other requests. A share of 100 % is meant to leave none.
func (c amountCheck) checkUnits(v value, l *Limit, counter *Counter) {
	cost, most := max(1, l.Cost.Number), counter.Limit.Max
	others := most - counter.Reserved
	switch {
	case cost > most:
		number, _ := v.find("cost")
		c.fail(number, fmt.Sprintf("the cost is above %d, the maximum of %q at once, so each request is refused", most, counter.Amount),
			`write a smaller cost or a larger amount, or refuse all requests by "allow: none"`)
	case cost > others && l.Priority.Share < 100:
		priority, _ := v.find("priority")
		share, _ := priority.find("share")
		c.fail(share, fmt.Sprintf("%d%% of %q, rounded up, leaves %d of %d units, so each request without priority is refused",
			l.Priority.Share, counter.Amount, others, most), "write a smaller share or a larger amount, or reserve all units by 100%")
	}
}

// checkSoft refuses a soft share that is less than one unit for each amount.
func (c amountCheck) checkSoft(v value, l *Limit) {
	most := int64(0)
	for _, a := range c.amounts {
		most = max(most, a.amount.atOnce())
	}
	if sum, ok := withShare(most, l.Soft); l.Soft == 0 || most == 0 || !ok || sum > most {
		return
	}
	soft, _ := v.find("soft")
	c.fail(soft, fmt.Sprintf("%d%% of %d, rounded down, is 0 units", l.Soft, most),
		fmt.Sprintf("write at least %d%%, or a larger amount", (100+most-1)/most))
}

// checkCostCases refuses costs of a map that no amount of the limit admits. A tier or an override may have fewer units:
// its requests with other costs are admitted.
func (d *decoder) checkCostCases(v value, l *Limit) {
	cost, _ := v.find("cost")
	most := l.mostAtOnce()
	if len(l.Cost.Cases) == 0 || most == 0 {
		return
	}
	for e := range cost.firstEntry().value.entries() {
		if n, err := strconv.ParseInt(e.value.Value, 10, 64); err == nil && n > most {
			d.fail(e.value, fmt.Sprintf("the cost is above %d, the maximum of the limit at once, so each of these requests is refused", most),
				"write a smaller cost or a larger amount")
		}
	}
}

// mostAtOnce returns the largest number of units that a request can be charged. It is 0 if all requests are refused.
func (l *Limit) mostAtOnce() (most int64) {
	for amounts := range l.amountLists() {
		least := int64(math.MaxInt64)
		for _, a := range amounts {
			switch a.Kind {
			case None:
				least = 0
			case Rate:
				if units, ok := withShare(a.atOnce(), l.Soft); ok {
					least = min(least, units)
				}
			}
		}
		most = max(most, least)
	}
	return most
}
