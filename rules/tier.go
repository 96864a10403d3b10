package rules

// tierTable numbers the tiers of a domain.
type tierTable struct {
	by       attributeID
	ids      map[string]int // from 0; nil if the domain has no tiers
	fallback string         // Tiers.Default
}

// compiledAllow is a compiled Allow.
type compiledAllow struct {
	amounts compiledAmounts   // for requests without a known tier
	tiers   []compiledAmounts // by tier; nil if the amounts are the same for all tiers
}

// compiledAmounts has the amounts of one tier.
type compiledAmounts struct {
	amounts []Amount
}

func (c *compiler) compileTiers(t Tiers) tierTable {
	table := tierTable{fallback: t.Default}
	if t.By != "" {
		table.by, table.ids = c.attributes.id(t.By), map[string]int{}
	}
	return table
}

// id returns the number of a tier.
func (t *tierTable) id(name string) int {
	id, ok := t.ids[name]
	if !ok && t.ids != nil {
		id = len(t.ids)
		t.ids[name] = id
	}
	return id
}

// of returns the tier of a request, or -1.
func (t *tierTable) of(r *request) int {
	if t.ids == nil {
		return -1
	}
	if id, ok := t.ids[string(r.text(t.by))]; ok {
		return id
	}
	return -1
}

// allow compiles the amounts of all tiers.
func (c *compiler) allow(a Allow) compiledAllow {
	compiled := compiledAllow{amounts: compiledAmounts{a.forTier("", c.tiers.fallback)}}
	for _, t := range a.Tiers {
		id := c.tiers.id(t.Tier)
		for len(compiled.tiers) <= id {
			compiled.tiers = append(compiled.tiers, compiled.amounts)
		}
		compiled.tiers[id] = compiledAmounts{t.Amounts}
	}
	return compiled
}

// forTier returns the amounts of a tier.
func (a *compiledAllow) forTier(tier int) *compiledAmounts {
	if tier < 0 || tier >= len(a.tiers) {
		return &a.amounts
	}
	return &a.tiers[tier]
}
