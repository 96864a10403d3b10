package rules

import "fmt"

// compiler compiles one domain.
type compiler struct {
	attributes *attributeCompiler
	tiers      tierTable
}

// compileDomain compiles a domain.
func compileDomain(x *Domain) (*CompiledDomain, error) {
	c := &compiler{attributes: newAttributeCompiler(x.Attributes)}
	c.tiers = c.compileTiers(x.Tiers)
	d := &CompiledDomain{domain: x, limits: make([]compiledLimit, len(x.Limits))}
	for i := range x.Limits {
		if err := c.compileLimit(&d.limits[i], &x.Limits[i]); err != nil {
			return nil, fmt.Errorf("domain %s, limit %s: %w", x.Name, x.Limits[i].Name, err)
		}
	}
	if x.Default != nil {
		d.fallback = &compiledDefault{allow: c.allow(x.Default.Allow), per: c.ids(x.Default.Per)}
	}
	d.attributes, d.tiers = c.attributes.table, c.tiers
	return d, nil
}

// compileLimit compiles one limit into l.
func (c *compiler) compileLimit(l *compiledLimit, limit *Limit) error {
	*l = compiledLimit{
		limit:     limit,
		when:      c.clause(limit.When),
		per:       c.ids(limit.Per),
		allow:     c.allow(limit.Allow),
		overrides: c.overrides(limit.Overrides),
		cost:      c.cost(limit.Cost),
	}
	if limit.Priority.Share > 0 {
		when := c.clause(limit.Priority.When)
		l.priority = &when
	}
	return nil
}

func (c *compiler) ids(names []string) []attributeID {
	if len(names) == 0 {
		return nil
	}
	ids := make([]attributeID, len(names))
	for i, name := range names {
		ids[i] = c.attributes.id(name)
	}
	return ids
}

func (c *compiler) clause(w When) clause {
	var compiled clause
	if len(w.All) > 0 {
		compiled.all = make([]condition, len(w.All))
	}
	for i, one := range w.All {
		compiled.all[i] = condition{c.attributes.id(one.Attribute), compileMatcher(one.Matcher)}
	}
	for _, alternative := range w.Any {
		compiled.any = append(compiled.any, c.clause(alternative))
	}
	return compiled
}

func compileMatcher(m Matcher) compiledMatcher {
	compiled := compiledMatcher{kind: m.Kind, text: m.Text}
	switch m.Kind {
	case Template:
		segments, open := splitTemplate(m.Text)
		compiled.more = &compiledOperand{segments: segments, open: open}
	case CIDR:
		compiled.more = &compiledOperand{network: m.Network}
	case AnyOf, Not:
		list := make([]compiledMatcher, len(m.List))
		for i, one := range m.List {
			list[i] = compileMatcher(one)
		}
		compiled.more = &compiledOperand{list: list}
	}
	return compiled
}

func (c *compiler) overrides(list []Override) []compiledOverride {
	if len(list) == 0 {
		return nil
	}
	overrides := make([]compiledOverride, len(list))
	for i := range list {
		overrides[i] = compiledOverride{&list[i], c.clause(list[i].When), c.allow(list[i].Allow)}
	}
	return overrides
}

func (c *compiler) cost(cost Cost) compiledCost {
	compiled := compiledCost{number: max(cost.Number, 1)}
	if cost.Attribute == "" {
		return compiled
	}
	compiled.by = &costAttribute{id: c.attributes.id(cost.Attribute), name: cost.Attribute}
	for _, one := range cost.Cases {
		compiled.by.cases = append(compiled.by.cases, costCase{compileMatcher(one.Matcher), one.Cost})
	}
	return compiled
}
