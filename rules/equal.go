package rules

import (
	"slices"
	"time"
)

// limitParts compares the parts of two limits that belong to a key each, in the order of the fields. It takes a small part
// of the time of reflect.DeepEqual, for files of many limits.
var limitParts = []struct {
	key   string
	equal func(l, o *Limit) bool
}{
	{"when", func(l, o *Limit) bool { return l.When.equal(o.When) }},
	{"per", func(l, o *Limit) bool { return slices.Equal(l.Per, o.Per) }},
	{"allow", func(l, o *Limit) bool { return l.Allow.equal(o.Allow) }},
	{"algorithm", func(l, o *Limit) bool { return l.Algorithm == o.Algorithm }},
	{"zone", func(l, o *Limit) bool { return equalZones(l.Zone, o.Zone) }},
	{"anchor", func(l, o *Limit) bool { return l.Anchor == o.Anchor }},
	{"cost", func(l, o *Limit) bool { return l.Cost.equal(&o.Cost) }},
	{"charge", func(l, o *Limit) bool { return slices.Equal(l.Charge, o.Charge) }},
	{"on_failure", func(l, o *Limit) bool { return l.OnFailure == o.OnFailure }},
	{"ban", func(l, o *Limit) bool { return l.Ban == o.Ban }},
	{"overrides", func(l, o *Limit) bool { return slices.EqualFunc(l.Overrides, o.Overrides, Override.equal) }},
	{"soft", func(l, o *Limit) bool { return l.Soft == o.Soft }},
	{"warn", func(l, o *Limit) bool { return l.Warn == o.Warn }},
	{"priority", func(l, o *Limit) bool {
		return l.Priority.Share == o.Priority.Share && l.Priority.When.equal(o.Priority.When)
	}},
	{"retry_jitter", func(l, o *Limit) bool { return l.RetryJitter == o.RetryJitter }},
	{"consistency", func(l, o *Limit) bool { return l.Consistency == o.Consistency }},
	{"shadow", func(l, o *Limit) bool { return l.Shadow == o.Shadow }},
	{"envoy", func(l, o *Limit) bool { return l.Envoy.equal(&o.Envoy) }},
}

// ChangedKeys returns the keys whose values differ in two limits of one name. Zones are equal if they have the same name.
func (l *Limit) ChangedKeys(o *Limit) (names []string) {
	for i := range limitParts {
		if p := &limitParts[i]; !p.equal(l, o) {
			names = append(names, p.key)
		}
	}
	return names
}

func equalZones(a, b *time.Location) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.String() == b.String()
}

func (w When) equal(o When) bool {
	return slices.EqualFunc(w.All, o.All, Condition.equal) && slices.EqualFunc(w.Any, o.Any, When.equal)
}

func (c Condition) equal(o Condition) bool {
	return c.Attribute == o.Attribute && c.Matcher.equal(o.Matcher)
}

func (m Matcher) equal(o Matcher) bool {
	return m.Kind == o.Kind && m.Text == o.Text && m.Network == o.Network && slices.EqualFunc(m.List, o.List, Matcher.equal)
}

func (a Allow) equal(o Allow) bool {
	return slices.Equal(a.Amounts, o.Amounts) && slices.EqualFunc(a.Tiers, o.Tiers, TierAmounts.equal)
}

func (t TierAmounts) equal(o TierAmounts) bool {
	return t.Tier == o.Tier && slices.Equal(t.Amounts, o.Amounts)
}

func (c *Cost) equal(o *Cost) bool {
	return c.Number == o.Number && c.Attribute == o.Attribute && slices.EqualFunc(c.Cases, o.Cases, CostCase.equal)
}

func (c CostCase) equal(o CostCase) bool { return c.Cost == o.Cost && c.Matcher.equal(o.Matcher) }

func (o Override) equal(p Override) bool {
	return o.Until.Equal(p.Until) && o.When.equal(p.When) && o.Allow.equal(p.Allow) && o.During.equal(&p.During)
}

func (p During) equal(o *During) bool {
	return p.From == o.From && p.To == o.To && slices.Equal(p.Days, o.Days) && equalZones(p.Zone, o.Zone)
}

func (e *EnvoyLimit) equal(o *EnvoyLimit) bool {
	return e.Name == o.Name && slices.Equal(e.Replaces, o.Replaces) && e.QuotaMode == o.QuotaMode && e.Metadata == o.Metadata
}
