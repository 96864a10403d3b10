package rules

import (
	"cmp"
	"slices"

	"github.com/gaissmai/bart"
)

// networkTable finds the networks that contain an address.
type networkTable struct {
	table    bart.Table[uint32] // position in networks
	networks []networkTarget    // larger networks first
}

// networkTarget is a network in a networkTable.
type networkTarget struct {
	target target
	parent uint32 // position of the smallest network that contains this one, or noParent
}

const noParent = 1<<32 - 1

// newNetworkTable returns a table of distinct networks. It sorts the list.
func newNetworkTable(list []keyedTarget) *networkTable {
	slices.SortFunc(list, func(a, b keyedTarget) int { return cmp.Compare(prefixLength(a.text), prefixLength(b.text)) })
	t := &networkTable{networks: make([]networkTarget, len(list))}
	for i, one := range list {
		network := textNetwork(one.text)
		parent, ok := t.table.LookupPrefix(network)
		if !ok {
			parent = noParent
		}
		t.networks[i] = networkTarget{one.target, parent}
		t.table.Insert(network, uint32(i))
	}
	return t
}

// prefixLength returns the prefix length of a networkText.
func prefixLength(text string) byte { return text[len(text)-1] }

// addNetworks appends the elements whose key is a network that contains the address in an attribute.
func (x *index) addNetworks(r *request, t *networkTable, id attributeID) {
	address := r.address(id)
	if !address.IsValid() {
		return
	}
	at, ok := t.table.Lookup(address)
	for ok {
		x.add(r, t.networks[at].target)
		at = t.networks[at].parent
		ok = at != noParent
	}
}
