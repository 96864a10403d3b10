package rules

import "math"

// indexBuilder builds an index. Its time is linear in the number of keys, up to the factor maxWork.
type indexBuilder struct {
	ids     map[accessKey]keyID
	keys    []accessKey // by keyID
	options []keyID     // the keys of all options
	entries []indexEntry
	counts  []uint32 // by keyID; zero, except in functions that use it
	work    int      // remaining number of keys that may be counted for indexes in buckets
}

// keyID is the position of a key in indexBuilder.keys.
type keyID = uint32

// indexEntry is an element of the list, with the conditions that it has together. An element has an entry for each of its
// alternatives.
type indexEntry struct {
	element uint32
	options []option
}

// option is the keys of one condition: a request that matches the entry has one of them. It is a range of
// indexBuilder.options.
type option struct{ start, end uint32 }

const (
	// maxOptions is the number of conditions of an entry that are considered, so that alternatives with many conditions
	// do not take quadratic memory.
	maxOptions = 16
	// maxWork bounds the work for the indexes in buckets: elements with several lists of values have an entry in each
	// index, so their number can grow by the product of the lengths.
	maxWork = 8
)

// newIndex returns an index of a list of the given length, or nil if the list is short. add adds an element to the
// builder.
func newIndex(length int, add func(b *indexBuilder, i int)) *index {
	if length <= few {
		return nil
	}
	b := &indexBuilder{ids: make(map[accessKey]keyID, length)}
	for i := range length {
		add(b, i)
	}
	return b.build()
}

// addClause adds an element with its conditions. It must be called for ascending elements.
func (b *indexBuilder) addClause(element int, c *clause) { b.addEntries(uint32(element), nil, c) }

// addMatcher adds an element with one condition.
func (b *indexBuilder) addMatcher(element int, id attributeID, m *compiledMatcher) {
	b.entries = append(b.entries, indexEntry{uint32(element), b.appendOption(nil, id, m)})
}

// addEntries adds an entry for each alternative of a clause. The options are those of the enclosing clauses.
func (b *indexBuilder) addEntries(element uint32, options []option, c *clause) {
	options = append(make([]option, 0, len(options)+len(c.all)), options...)
	for i := range c.all {
		options = b.appendOption(options, c.all[i].attribute, &c.all[i].matcher)
	}
	if len(c.any) == 0 {
		b.entries = append(b.entries, indexEntry{element, options})
	}
	for i := range c.any {
		b.addEntries(element, options, &c.any[i])
	}
}

// appendOption appends the keys of a condition, unless it has none.
func (b *indexBuilder) appendOption(options []option, id attributeID, m *compiledMatcher) []option {
	var buffer [4]accessKey
	keys, ok := m.appendKeys(buffer[:0], id)
	if !ok || len(options) >= maxOptions {
		return options
	}
	start := uint32(len(b.options))
	for _, key := range keys {
		b.options = append(b.options, b.id(key))
	}
	return append(options, option{start, uint32(len(b.options))})
}

// id returns the number of a key.
func (b *indexBuilder) id(key accessKey) keyID {
	id, ok := b.ids[key]
	if !ok {
		id = keyID(len(b.keys))
		b.ids[key] = id
		b.keys = append(b.keys, key)
	}
	return id
}

// build returns the index of all elements that were added.
func (b *indexBuilder) build() *index {
	b.counts = make([]uint32, len(b.keys))
	b.work = maxWork * len(b.options)
	chosen, _ := b.choose(b.entries)
	return b.newIndex(b.entries, chosen)
}

// keysOf returns the keys of an option.
func (b *indexBuilder) keysOf(o option) []keyID { return b.options[o.start:o.end] }

// noOption is the choice for an entry without options.
const noOption = -1

// choose returns for each entry the position of the option by which the fewest elements are found. found reports
// whether there are any.
func (b *indexBuilder) choose(entries []indexEntry) (chosen []int8, found bool) {
	b.count(entries, 1)
	chosen = make([]int8, len(entries))
	for i, e := range entries {
		chosen[i] = noOption
		least := uint64(math.MaxUint64)
		for j, o := range e.options {
			if load := b.load(o); load < least {
				chosen[i], least, found = int8(j), load, true
			}
		}
	}
	b.count(entries, 0)
	return chosen, found
}

// count adds the entries of each key, or sets the counts to 0 if factor is 0.
func (b *indexBuilder) count(entries []indexEntry, factor uint32) {
	for _, e := range entries {
		for _, o := range e.options {
			for _, key := range b.keysOf(o) {
				b.counts[key] = (b.counts[key] + 1) * factor
			}
		}
	}
}

// load estimates how many entries are found by the keys of an option, at a scale that has no unit.
func (b *indexBuilder) load(o option) uint64 {
	var load uint64
	for _, key := range b.keysOf(o) {
		load = max(load, uint64(b.counts[key])*accessWeights[b.keys[key].kind])
	}
	return load
}

// newIndex returns an index of entries by the chosen options.
func (b *indexBuilder) newIndex(entries []indexEntry, chosen []int8) *index {
	x := &index{}
	for i, e := range entries {
		if chosen[i] == noOption {
			x.always = appendElement(x.always, e.element)
		}
	}
	targets := map[attributeID]*keyTargets{}
	var order []attributeID // of the first keys, so that equal files have equal indexes
	for _, g := range b.groups(entries, chosen) {
		key := &b.keys[g.key]
		t := targets[key.attribute]
		if t == nil {
			t = &keyTargets{}
			targets[key.attribute] = t
			order = append(order, key.attribute)
		}
		t[key.kind] = append(t[key.kind], keyedTarget{key.text, b.target(x, entries, chosen, g.entries)})
	}
	for _, id := range order {
		x.addTargets(id, targets[id])
	}
	return x
}

// addTargets adds the keys of an attribute.
func (x *index) addTargets(id attributeID, targets *keyTargets) {
	x.attributes = append(x.attributes, targets.index(id))
	if len(x.attributes) <= few {
		return
	}
	if x.byID == nil {
		x.byID = map[attributeID]uint32{}
	}
	for i := len(x.byID); i < len(x.attributes); i++ {
		x.byID[x.attributes[i].attribute] = uint32(i)
	}
}

// group is the entries with one key.
type group struct {
	key     keyID
	entries []uint32 // positions, ascending
}

// groups returns the entries of each key of the chosen options, in the order in which the keys first occur.
func (b *indexBuilder) groups(entries []indexEntry, chosen []int8) []group {
	var order []keyID
	total := 0
	b.eachChosen(entries, chosen, func(_ int, key keyID) {
		if b.counts[key]++; b.counts[key] == 1 {
			order = append(order, key)
		}
		total++
	})
	groups := make([]group, len(order))
	members := make([]uint32, total)
	for i, key := range order {
		n := b.counts[key]
		groups[i] = group{key, members[:0:n]}
		members, b.counts[key] = members[n:], uint32(i)
	}
	b.eachChosen(entries, chosen, func(i int, key keyID) {
		g := &groups[b.counts[key]]
		g.entries = append(g.entries, uint32(i))
	})
	for _, key := range order {
		b.counts[key] = 0
	}
	return groups
}

// eachChosen calls f for each key of the chosen option of each entry.
func (b *indexBuilder) eachChosen(entries []indexEntry, chosen []int8, f func(i int, key keyID)) {
	for i, e := range entries {
		if chosen[i] == noOption {
			continue
		}
		for _, key := range b.keysOf(e.options[chosen[i]]) {
			f(i, key)
		}
	}
}

// target returns the target of a key, and adds its bucket if several elements share the key.
func (b *indexBuilder) target(x *index, entries []indexEntry, chosen []int8, members []uint32) target {
	first, last := entries[members[0]].element, entries[members[len(members)-1]].element
	if first == last {
		return target(first)
	}
	var shared bucket
	if len(members) > few {
		shared.index = b.refine(entries, chosen, members)
	}
	if shared.index == nil {
		for _, i := range members {
			shared.elements = appendElement(shared.elements, entries[i].element)
		}
	}
	x.buckets = append(x.buckets, shared)
	return bucketFlag | target(len(x.buckets)-1)
}

// refine returns an index of the entries with one key, by their other options. It returns nil if they have none.
func (b *indexBuilder) refine(entries []indexEntry, chosen []int8, members []uint32) *index {
	rest := make([]indexEntry, len(members))
	for i, at := range members {
		e := entries[at]
		used := int(chosen[at])
		rest[i].element = e.element
		rest[i].options = append(append(make([]option, 0, len(e.options)-1), e.options[:used]...), e.options[used+1:]...)
		for _, o := range rest[i].options {
			b.work -= int(o.end - o.start)
		}
	}
	if b.work < 0 {
		return nil
	}
	if again, found := b.choose(rest); found {
		return b.newIndex(rest, again)
	}
	return nil
}

// appendElement appends an element to an ascending list, unless it is the last already.
func appendElement(list []uint32, element uint32) []uint32 {
	if n := len(list); n > 0 && list[n-1] == element {
		return list
	}
	return append(list, element)
}

// keyTargets has the keys of one attribute, by kind.
type keyTargets [accessKinds][]keyedTarget

// index returns the index of the attribute.
func (t *keyTargets) index(id attributeID) attributeIndex {
	a := attributeIndex{attribute: id, present: noTarget}
	if list := t[byExact]; len(list) > 0 {
		a.exact = make(map[string]target, len(list))
		for _, one := range list {
			a.exact[one.text] = one.target
		}
	}
	if list := t[byNetwork]; len(list) > 0 {
		a.networks = newNetworkTable(list)
	}
	if list := t[byTemplate]; len(list) > 0 {
		a.templates = newTemplateTree(list)
	}
	if list := t[byPrefix]; len(list) > 0 {
		a.prefixes = newPrefixTree(list)
	}
	if list := t[bySuffix]; len(list) > 0 {
		a.suffixes = newPrefixTree(list)
	}
	if list := t[byPresent]; len(list) > 0 {
		a.present = list[0].target
	}
	return a
}
