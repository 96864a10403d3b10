package rules

import (
	"slices"
	"time"
)

// Equal reports whether two limits have the same content. Zones are equal if they have the same name.
//
// It takes a small part of the time of reflect.DeepEqual, for files of many limits.
func (l *Limit) Equal(o *Limit) bool {
	return l.Name == o.Name && l.When.equal(o.When) && slices.Equal(l.Per, o.Per) && l.Allow.equal(o.Allow) &&
		l.Algorithm == o.Algorithm && equalZones(l.Zone, o.Zone) && l.Anchor == o.Anchor &&
		l.Cost.equal(&o.Cost) && slices.Equal(l.Charge, o.Charge) && l.OnFailure == o.OnFailure && l.Ban == o.Ban &&
		slices.EqualFunc(l.Overrides, o.Overrides, Override.equal) && l.Soft == o.Soft && l.Warn == o.Warn &&
		l.Priority.Share == o.Priority.Share && l.Priority.When.equal(o.Priority.When) && l.RetryJitter == o.RetryJitter &&
		l.Consistency == o.Consistency && l.Shadow == o.Shadow && l.Envoy.equal(&o.Envoy)
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
