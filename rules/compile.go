package rules

// compiler compiles one domain.
type compiler struct {
	domain     string
	attributes *attributeCompiler
	tiers      tierTable
	tierBy     string // Tiers.By
}

// compileDomain compiles a domain.
func compileDomain(x *Domain) (*CompiledDomain, error) {
	c := &compiler{domain: x.Name, attributes: newAttributeCompiler(x.Attributes), tierBy: x.Tiers.By}
	c.tiers = c.compileTiers(x.Tiers)
	d := &CompiledDomain{domain: x, limits: make([]compiledLimit, len(x.Limits))}
	for i := range x.Limits {
		if err := c.compileLimit(&d.limits[i], &x.Limits[i]); err != nil {
			return nil, err
		}
	}
	d.index = newIndex(len(d.limits), func(b *indexBuilder, i int) { b.addClause(i, &d.limits[i].when) })
	if x.Default != nil {
		t := c.together(x.Default.Per, nil)
		allow, err := c.allow(x.Default.Allow, nil, &t, "")
		if err != nil {
			return nil, err
		}
		d.fallback = &compiledDefault{allow: allow, per: c.ids(x.Default.Per)}
	}
	d.attributes, d.tiers = c.attributes.table, c.tiers
	return d, nil
}

// compileLimit compiles one limit into l.
func (c *compiler) compileLimit(l *compiledLimit, limit *Limit) error {
	*l = compiledLimit{limit: limit, replaces: limit.replacesDefault(), when: c.clause(limit.When), per: c.ids(limit.Per), cost: c.cost(limit.Cost)}
	t := c.together(limit.Per, limit.Overrides)
	var err error
	if l.allow, err = c.allow(limit.Allow, limit, &t, ""); err != nil {
		return err
	}
	if l.overrides, err = c.overrides(limit, &t); err != nil {
		return err
	}
	l.ban = compileBan(c.domain, limit)
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
		id := c.attributes.id(one.Attribute)
		compiled.all[i] = condition{id, compileMatcher(one.Matcher, id)}
	}
	if len(w.Any) > 0 {
		compiled.any = make([]clause, len(w.Any))
	}
	for i, alternative := range w.Any {
		compiled.any[i] = c.clause(alternative)
	}
	compiled.anyIndex = newIndex(len(compiled.any), func(b *indexBuilder, i int) { b.addClause(i, &compiled.any[i]) })
	return compiled
}

// compileMatcher compiles a matcher for an attribute.
func compileMatcher(m Matcher, id attributeID) compiledMatcher {
	switch m.Kind {
	case Template:
		segments, open := splitTemplate(m.Text)
		return compiledMatcher{Template, joinTemplate(segments, open), &compiledOperand{segments: segments, open: open}}
	case CIDR:
		return compiledMatcher{kind: CIDR, more: &compiledOperand{network: m.Network}}
	case Present, Absent:
		return compiledMatcher{kind: m.Kind}
	case Not:
		return not(compileMatcher(m.List[0], id))
	case AnyOf:
		return compileList(m.List, id)
	}
	return compiledMatcher{kind: m.Kind, text: m.Text}
}

// compileList compiles an AnyOf.
func compileList(list []Matcher, id attributeID) compiledMatcher {
	o := &compiledOperand{list: make([]compiledMatcher, len(list))}
	for i, m := range list {
		o.list[i] = compileMatcher(m, id)
	}
	o.index = newIndex(len(list), func(b *indexBuilder, i int) { b.addMatcher(i, id, &o.list[i]) })
	return compiledMatcher{kind: AnyOf, more: o}
}

// not returns the opposite of a matcher.
func not(m compiledMatcher) compiledMatcher {
	switch m.kind {
	case Not:
		return m.more.list[0]
	case Present:
		return compiledMatcher{kind: Absent}
	case Absent:
		return compiledMatcher{kind: Present}
	}
	return compiledMatcher{kind: Not, more: &compiledOperand{list: []compiledMatcher{m}}}
}

func (c *compiler) overrides(limit *Limit, t *together) (overrideList, error) {
	list := limit.Overrides
	if len(list) == 0 {
		return overrideList{}, nil
	}
	overrides := make([]compiledOverride, len(list))
	for i := range list {
		allow, err := c.allow(list[i].Allow, limit, t, t.overridePart(&list[i].When))
		if err != nil {
			return overrideList{}, err
		}
		overrides[i] = compiledOverride{&list[i], c.clause(list[i].When), allow}
	}
	index := newIndex(len(list), func(b *indexBuilder, i int) { b.addClause(i, &overrides[i].when) })
	return overrideList{overrides, index}, nil
}

func (c *compiler) cost(cost Cost) compiledCost {
	compiled := compiledCost{number: max(cost.Number, 1)}
	if cost.Attribute == "" {
		return compiled
	}
	by := &costAttribute{id: c.attributes.id(cost.Attribute), name: cost.Attribute, cases: make([]costCase, len(cost.Cases))}
	for i, one := range cost.Cases {
		by.cases[i] = costCase{compileMatcher(one.Matcher, by.id), one.Cost}
	}
	by.index = newIndex(len(by.cases), func(b *indexBuilder, i int) { b.addMatcher(i, by.id, &by.cases[i].matcher) })
	compiled.by = by
	return compiled
}
