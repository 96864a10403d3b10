package cluster

import (
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/acl"
)

// creations returns the creation numbers of the users in a version, by name. Users with the number 0 are left out.
func (v *usersVersion) creations() map[string]uint64 {
	numbers, names := map[string]uint64{}, acl.Names(v.text)
	for i, word := range strings.Fields(v.Created) {
		if n, err := strconv.ParseUint(word, 10, 64); err == nil && n > 0 && i < len(names) {
			numbers[names[i]] = n
		}
	}
	return numbers
}

// maxCreated is the maximum size of the field Created, in bytes, so that it fits in the head of a snapshot. A text of
// acl.MaxText bytes that acl.Set.Text has written needs less.
const maxCreated = maxHead / 2

// createdAfter returns the field Created of a version that replaces v. A user that v contains keeps its number. Another user
// gets the number of the new version, except in the first version: its users are those that the nodes had before.
func (v *usersVersion) createdAfter(number uint64, text string) string {
	if v.Number == 0 {
		return ""
	}
	before, numbers := map[string]bool{}, v.creations()
	for _, name := range acl.Names(v.text) {
		before[name] = true
	}
	names := acl.Names(text)
	words, later := make([]string, len(names)), false
	for i, name := range names {
		n := numbers[name]
		if !before[name] && name != acl.DefaultName {
			n = number
		}
		words[i], later = strconv.FormatUint(n, 10), later || n > 0
	}
	if created := strings.Join(words, " "); later && len(created) <= maxCreated {
		return created
	}
	return ""
}
