package rules

// tierTable numbers the tiers of a domain.
type tierTable struct {
	by       attributeID
	ids      map[string]int // from 0; nil if the domain has no tiers
	fallback string         // Tiers.Default
}

// compiledAllow is a compiled Allow.
type compiledAllow struct {
	counters []Counter   // for requests without a known tier
	tiers    [][]Counter // by tier; nil if the amounts are the same for all tiers
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

// allow compiles the amounts of all tiers. The limit is nil for the default of the domain. The part of keys distinguishes
// the requests of an override; see together.
func (c *compiler) allow(a Allow, limit *Limit, t *together, part string) (compiledAllow, error) {
	var compiled compiledAllow
	var err error
	if len(a.Tiers) == 0 {
		compiled.counters, err = c.counters(a.Amounts, limit, part)
		return compiled, err
	}
	fallback := c.tiers.fallback
	if compiled.counters, err = c.counters(a.forTier("", fallback), limit, part+t.tierPart(fallback)); err != nil {
		return compiled, err
	}
	for _, tier := range a.Tiers {
		id := c.tiers.id(tier.Tier)
		for len(compiled.tiers) <= id {
			compiled.tiers = append(compiled.tiers, compiled.counters)
		}
		if compiled.tiers[id], err = c.counters(tier.Amounts, limit, part+t.tierPart(tier.Tier)); err != nil {
			return compiled, err
		}
	}
	return compiled, nil
}

// counters compiles a list of amounts, whose keys have a part after the window.
func (c *compiler) counters(amounts []Amount, limit *Limit, part string) ([]Counter, error) {
	name := ""
	if limit != nil {
		name = limit.Name
	}
	counters, err := compileCounters(c.domain, name, limit, amounts)
	if part != "" {
		for i := range counters {
			counters[i].prefix += part
		}
	}
	return counters, err
}

// forTier returns the counters of a tier.
func (a *compiledAllow) forTier(tier int) []Counter {
	if tier < 0 || tier >= len(a.tiers) {
		return a.counters
	}
	return a.tiers[tier]
}
