package rules

import (
	"fmt"
	"net/netip"
	"strconv"
)

// request holds the attributes of one request for matching.
type request struct {
	table *attributeTable
	// positions maps an attributeID to a position in values. Positions of earlier requests are not cleared: an entry is
	// valid if values has the attribute at this position.
	positions []uint32
	values    []attributeValue
	order     [12]attributeID // hints: attributes of an earlier request by the positions of their pairs
	names     nameSet         // names that the domain does not use
	tier      int             // see tierTable; -1 if the request has none

	found     []uint32 // see lookUp
	reversed  []byte   // see addSuffixes
	canonical []byte   // memory of attributeValue.canonical
}

// attributeValue is the value of one attribute of a request.
type attributeValue struct {
	attribute attributeID
	source    uint32 // position of the value: another one if the attribute is derived by first_of
	text      []byte // empty if the attribute is absent
	parsed    bool   // whether address is set
	address   netip.Addr
	canonical []byte // counted form of an address; nil until it is needed
}

// read sets the attributes from pairs of names and values.
func (r *request) read(table *attributeTable, pairs [][]byte) error {
	r.table = table
	if len(r.positions) < len(table.list) {
		r.positions = make([]uint32, len(table.list))
	}
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i]
		if i+1 == len(pairs) {
			return fmt.Errorf("attribute %s has no value: attributes are pairs of a name and a value", quoteArgument(string(name)))
		}
		id, used := r.idOf(name, i/2)
		switch {
		case used && r.find(id) == nil:
			r.set(id, uint32(len(r.values)), pairs[i+1])
		case len(name) == 0:
			return fmt.Errorf("the attribute with the value %s has no name: attributes are pairs of a name and a value", quoteArgument(string(pairs[i+1])))
		case used || !r.names.add(name):
			return fmt.Errorf("attribute %s is repeated: give each attribute once", quoteArgument(string(name)))
		}
	}
	if table.derives {
		r.derive()
	}
	return nil
}

// quoteArgument returns an argument of a request in single quotes, as in other errors of the server.
func quoteArgument(text string) string {
	quoted := strconv.QuoteToASCII(clip(text))
	return "'" + quoted[1:len(quoted)-1] + "'"
}

// idOf returns the number of the attribute of a pair of the request, and whether the domain uses it. Most requests have
// the same attributes in the same order as an earlier one, so that the attribute need not be looked up.
func (r *request) idOf(name []byte, pair int) (id attributeID, used bool) {
	if pair >= len(r.order) {
		id, used = r.table.ids[string(name)]
		return id, used
	}
	id = r.order[pair]
	if id < attributeID(len(r.table.list)) && r.table.list[id].isNamed(name) {
		return id, true
	}
	if id, used = r.table.ids[string(name)]; used {
		r.order[pair] = id
	}
	return id, used
}

// clear removes all attributes, and drops all references to their values.
func (r *request) clear() {
	clear(r.values)
	r.values, r.canonical = r.values[:0], r.canonical[:0]
	r.names.reset()
}

// set adds an attribute whose value is at the position source.
func (r *request) set(id attributeID, source uint32, text []byte) {
	r.positions[id] = uint32(len(r.values))
	r.values = append(r.values, attributeValue{})
	v := &r.values[len(r.values)-1]
	v.attribute, v.source, v.text = id, source, text
}

// derive adds the attributes that are derived from those of the request.
func (r *request) derive() {
	for i, n := 0, len(r.values); i < n; i++ {
		if len(r.values[i].text) == 0 {
			continue
		}
		for _, id := range r.table.list[r.values[i].attribute].derived {
			if r.find(id) == nil {
				source := r.firstPresent(r.table.list[id].firstOf)
				r.set(id, source, r.values[source].text)
			}
		}
	}
}

// firstPresent returns the position of the first attribute with a value. At least one must have a value.
func (r *request) firstPresent(ids []attributeID) uint32 {
	for _, id := range ids {
		if v := r.find(id); v != nil && len(v.text) > 0 {
			return r.positions[id]
		}
	}
	panic("rules: a derived attribute has no source")
}

// find returns the entry of an attribute, or nil.
func (r *request) find(id attributeID) *attributeValue {
	if at := r.positions[id]; at < uint32(len(r.values)) && r.values[at].attribute == id {
		return &r.values[at]
	}
	return nil
}

// text returns the value of an attribute. It is empty if the attribute is absent.
func (r *request) text(id attributeID) []byte {
	if v := r.find(id); v != nil {
		return v.text
	}
	return nil
}

// address returns the value of an attribute as an IP address without a zone. It is not valid if the value is something
// else. An address is parsed once per request.
func (r *request) address(id attributeID) netip.Addr {
	v := r.find(id)
	if v == nil {
		return netip.Addr{}
	}
	return r.values[v.source].asAddress()
}

func (v *attributeValue) asAddress() netip.Addr {
	if !v.parsed {
		v.address, v.parsed = parseAddress(v.text), true
	}
	return v.address
}

// count sets value to the value under which an attribute is counted. It must be the zero Value.
func (r *request) count(id attributeID, value *Value) {
	v := r.find(id)
	if v == nil || len(v.text) == 0 {
		return
	}
	v = &r.values[v.source]
	info := &r.table.list[v.attribute]
	value.Attribute, value.Value = info.name, v.text
	if info.ipv6Prefix == 0 {
		return
	}
	if v.canonical == nil {
		start := len(r.canonical)
		r.canonical = v.appendCanonical(r.canonical, info.ipv6Prefix)
		v.canonical = r.canonical[start:len(r.canonical):len(r.canonical)]
	}
	value.Value = v.canonical
}

// appendCanonical appends the form of an address that canonicalIP describes.
func (v *attributeValue) appendCanonical(dst []byte, bits int) []byte {
	switch address := v.asAddress(); {
	case !address.IsValid():
		return append(dst, v.text...)
	case address.Is4():
		return address.AppendTo(dst)
	default:
		return netip.PrefixFrom(address, bits).Masked().AppendTo(dst)
	}
}
