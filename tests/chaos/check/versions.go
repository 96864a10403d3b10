package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// RuleFault is a violation of a guarantee about the versions of the rules.
type RuleFault struct {
	Guarantee string // name of the guarantee
	Text      string
}

// String returns the guarantee and the violation.
func (f RuleFault) String() string { return f.Guarantee + ": " + f.Text }

// The guarantees that Versions checks.
const (
	WholeSet    = "whole set"    // a request is decided by one set, never by parts of two
	OneContent  = "one content"  // a version has one content
	OneVersion  = "one version"  // a change of the rules makes at most one version, and none if it was refused
	Committed   = "committed"    // a decision is made by a version that was proposed, and that is in the history
	NoGap       = "no gap"       // the versions in the history are numbered without gaps
	BaseIsKept  = "base"         // a change that names its base makes the version after the base
	NotBackward = "not backward" // a request that was sent after a reply is decided by the same version or by a later one
)

// Versions checks that each decision is explained by exactly one version of the rules, and that versions never decrease.
//
// The versions of the run are those in the lists and in the replies to changes. Together they must be complete: all of
// them are listed at least once. A change whose outcome is unknown may or may not be a version.
//
// A reply must have at least the version of every reply that was received before its request was sent, no matter by
// which client and from which node. The same holds for the acknowledgment of a change. Versions runs in O(n log n).
func Versions(h *history.Rules) []RuleFault {
	v := &versionCheck{contents: map[uint64]int64{}, changes: map[int64]*history.Change{}, counts: map[string]int{}}
	for i := range h.Changes {
		v.changes[h.Changes[i].Content] = &h.Changes[i]
	}
	for i := range h.Listed {
		v.list(&h.Listed[i])
	}
	for i := range h.Changes {
		v.acknowledge(&h.Changes[i])
	}
	v.checkNumbers()
	for i := range h.Decisions {
		v.explain(&h.Decisions[i])
	}
	v.checkClients(h.Decisions)
	v.checkOrder(h)
	return v.result()
}

// versionCheck is the state of Versions.
type versionCheck struct {
	contents map[uint64]int64          // of the known versions
	changes  map[int64]*history.Change // by content
	faults   []RuleFault
	counts   map[string]int // number of faults of each guarantee
}

// mostFaults is the largest number of faults of one guarantee that are returned.
const mostFaults = 3

func (v *versionCheck) fault(guarantee, format string, args ...any) {
	if v.counts[guarantee]++; v.counts[guarantee] <= mostFaults {
		v.faults = append(v.faults, RuleFault{guarantee, fmt.Sprintf(format, args...)})
	}
}

// result returns the first faults of each guarantee, and the numbers of the others.
func (v *versionCheck) result() []RuleFault {
	for _, guarantee := range slices.Sorted(maps.Keys(v.counts)) {
		if more := v.counts[guarantee] - mostFaults; more > 0 {
			v.faults = append(v.faults, RuleFault{guarantee, fmt.Sprintf("%d more", more)})
		}
	}
	return v.faults
}

// list adds a version of a list.
func (v *versionCheck) list(listed *history.Version) {
	before, known := v.contents[listed.Number]
	if known && before != listed.Content {
		v.fault(OneContent, "version %d is listed with the contents %d and %d", listed.Number, before, listed.Content)
		return
	}
	v.contents[listed.Number] = listed.Content
}

// acknowledge compares the reply to a change with the lists.
func (v *versionCheck) acknowledge(c *history.Change) {
	if c.Outcome != history.Granted {
		return
	}
	if content, known := v.contents[c.Version]; !known {
		v.fault(Committed, "version %d, content %d, was acknowledged at %s and is not in the history", c.Version, c.Content, at(c.Return))
	} else if content != c.Content {
		v.fault(OneContent, "version %d was acknowledged with content %d and is listed with content %d", c.Version, c.Content, content)
	}
	if c.Base > 0 && c.Version != c.Base+1 {
		v.fault(BaseIsKept, "a change based on version %d has become version %d", c.Base, c.Version)
	}
}

// checkNumbers checks that the numbers of versions have no gaps, and that no change has two versions.
func (v *versionCheck) checkNumbers() {
	numbers := make([]uint64, 0, len(v.contents))
	for number := range v.contents {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	made := map[int64]uint64{}
	for i, number := range numbers {
		if number != uint64(i)+1 {
			v.fault(NoGap, "version %d is not in the history, and version %d is", i+1, number)
			break
		}
	}
	for _, number := range numbers {
		content := v.contents[number]
		if content == history.NoContent {
			continue
		}
		if before := made[content]; before > 0 {
			v.fault(OneVersion, "the change with content %d has become the versions %d and %d", content, before, number)
		}
		made[content] = number
		if c := v.changes[content]; c != nil && c.Outcome == history.Limited {
			v.fault(OneVersion, "the change with content %d was refused at %s and has become version %d", content, at(c.Return), number)
		}
	}
}

// explain checks that a decision was made by one version.
func (v *versionCheck) explain(d *history.Decision) {
	if d.Contents[0] != d.Contents[1] {
		v.fault(WholeSet, "%s: the limits have the contents %d and %d", describe(d), d.Contents[0], d.Contents[1])
		return
	}
	content, known := v.contents[d.Version]
	c := v.changes[d.Contents[0]]
	switch {
	case !known:
		v.fault(Committed, "%s: the version is not in the history", describe(d))
	case content != d.Contents[0]:
		v.fault(OneContent, "%s: the limits have the content %d, and version %d has the content %d", describe(d), d.Contents[0], d.Version, content)
	case c == nil:
		v.fault(Committed, "%s: no change has the content %d", describe(d), d.Contents[0])
	case c.Call > d.Return:
		v.fault(Committed, "%s: the content %d was proposed later, at %s", describe(d), d.Contents[0], at(c.Call))
	}
}

// checkClients checks that the versions of a client never decrease. It also covers the commands of a pipeline, which are
// sent at the same time.
func (v *versionCheck) checkClients(decisions []history.Decision) {
	last := map[int32]*history.Decision{}
	for i := range decisions {
		d := &decisions[i]
		if before := last[d.Client]; before != nil && before.Version > d.Version {
			v.fault(NotBackward, "%s: the same client had version %d before, at %s from node %d", describe(d), before.Version, at(before.Return), before.Node)
		}
		last[d.Client] = d
	}
}

// editor is the client of a decision that stands for the reply to a change.
const editor = -1

// checkOrder checks that the versions of all replies never decrease in real time. The reply to a change counts as a reply
// with its version.
func (v *versionCheck) checkOrder(h *history.Rules) {
	byCall := slices.Clone(h.Decisions)
	for _, c := range h.Changes {
		if c.Outcome == history.Granted {
			byCall = append(byCall, history.Decision{Client: editor, Call: c.Call, Return: c.Return, Version: c.Version})
		}
	}
	slices.SortFunc(byCall, func(a, b history.Decision) int { return cmp.Compare(a.Call, b.Call) })
	byReturn := make([]int32, len(byCall))
	for i := range byReturn {
		byReturn[i] = int32(i)
	}
	slices.SortFunc(byReturn, func(a, b int32) int { return cmp.Compare(byCall[a].Return, byCall[b].Return) })
	newest := &history.Decision{} // of the replies received before the current request was sent
	for i := range byCall {
		d := &byCall[i]
		for len(byReturn) > 0 && byCall[byReturn[0]].Return < d.Call {
			if returned := &byCall[byReturn[0]]; returned.Version > newest.Version {
				newest = returned
			}
			byReturn = byReturn[1:]
		}
		if newest.Version > d.Version {
			v.fault(NotBackward, "%s, whose request was sent at %s, after %s", describe(d), at(d.Call), describe(newest))
		}
	}
}

// describe returns a decision as text.
func describe(d *history.Decision) string {
	if d.Client == editor {
		return fmt.Sprintf("the acknowledgment of version %d at %s", d.Version, at(d.Return))
	}
	return fmt.Sprintf("a reply with version %d to client %d, at %s from node %d", d.Version, d.Client, at(d.Return), d.Node)
}

// at returns a time of a history as text.
func at(moment int64) string { return fmt.Sprintf("%.6f s", float64(moment)/1e9) }
