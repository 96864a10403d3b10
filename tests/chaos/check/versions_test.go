package check

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// goodRules returns a history in which the versions 1, 2 and 3 have the contents 11, 12 and 14, and the outcome of the
// changes with the contents 13 and 14 is unknown.
func goodRules() *history.Rules {
	unknown := func(content, call int64) history.Change {
		return history.Change{Content: content, Outcome: history.Unknown, Call: call, Return: history.Never}
	}
	return &history.Rules{
		Changes: []history.Change{
			{Content: 11, Version: 1, Call: 0, Return: 10},
			{Content: 12, Version: 2, Base: 1, Call: 20, Return: 30},
			unknown(13, 40), unknown(14, 60),
			{Content: 15, Outcome: history.Limited, Base: 1, Call: 70, Return: 80},
		},
		Listed: []history.Version{{Number: 1, Content: 11}, {Number: 2, Content: 12}, {Number: 1, Content: 11}, {Number: 2, Content: 12}, {Number: 3, Content: 14}},
		Decisions: []history.Decision{
			decision(0, 11, 12, 1, 11), decision(0, 21, 29, 2, 12), decision(0, 60, 69, 3, 14),
			decision(1, 2, 4, 1, 11), decision(1, 22, 28, 1, 11), decision(1, 31, 33, 2, 12), decision(1, 61, 90, 2, 12),
			decision(2, 70, 75, 3, 14),
		},
	}
}

func decision(client int, call, ret int64, version uint64, content int64) history.Decision {
	return history.Decision{Client: int32(client), Replies: 1, Call: call, Return: ret, Version: version, Contents: [2]int64{content, content}}
}

// badRules are changes that make the history of goodRules violate one guarantee.
var badRules = []struct {
	name      string
	guarantee string
	spoil     func(h *history.Rules)
}{
	{"half a set", WholeSet, func(h *history.Rules) { h.Decisions[1].Contents[1] = 11 }},
	{"half an unknown set", WholeSet, func(h *history.Rules) { h.Decisions[1].Contents = [2]int64{13, 12} }},
	{"a version with the content of another", OneContent, func(h *history.Rules) { h.Decisions[1].Contents = [2]int64{11, 11} }},
	{"a content that is not a version", OneContent, func(h *history.Rules) { h.Decisions[1].Contents = [2]int64{13, 13} }},
	{"two lists differ", OneContent, func(h *history.Rules) { h.Listed[2].Content = 13 }},
	{"the reply to a change differs from the list", OneContent, func(h *history.Rules) { h.Changes[1].Content, h.Changes[2].Content = 13, 12 }},
	{"two changes with one version", OneContent, func(h *history.Rules) {
		h.Changes[2] = history.Change{Content: 13, Version: 2, Call: 40, Return: 41}
	}},
	{"a version that is not listed", Committed, func(h *history.Rules) {
		h.Decisions = append(h.Decisions, decision(3, 90, 91, 4, 13))
	}},
	{"an acknowledged version that is not listed", Committed, func(h *history.Rules) {
		h.Changes[2] = history.Change{Content: 13, Version: 4, Call: 40, Return: 100}
	}},
	{"a decision before the change", Committed, func(h *history.Rules) { h.Decisions[2].Call, h.Decisions[2].Return = 41, 59 }},
	{"a content that was not proposed", Committed, func(h *history.Rules) {
		h.Listed[4].Content, h.Decisions[2].Contents, h.Decisions[7].Contents = 99, [2]int64{99, 99}, [2]int64{99, 99}
	}},
	{"a decision without rules", Committed, func(h *history.Rules) { h.Decisions[3].Version = 0 }},
	{"a version is missing", NoGap, func(h *history.Rules) {
		h.Changes[1].Outcome, h.Changes[1].Version, h.Changes[1].Return = history.Unknown, 0, history.Never
		h.Listed = slices.DeleteFunc(h.Listed, func(v history.Version) bool { return v.Number == 2 })
	}},
	{"a change is applied twice", OneVersion, func(h *history.Rules) { h.Listed = append(h.Listed, history.Version{Number: 4, Content: 12}) }},
	{"a refused change is applied", OneVersion, func(h *history.Rules) { h.Listed = append(h.Listed, history.Version{Number: 4, Content: 15}) }},
	{"the base is ignored", BaseIsKept, func(h *history.Rules) {
		h.Changes[3] = history.Change{Content: 14, Version: 3, Base: 1, Call: 60, Return: 62}
	}},
	{"a client has an earlier version than before", NotBackward, func(h *history.Rules) { h.Decisions[0], h.Decisions[1] = h.Decisions[1], h.Decisions[0] }},
	{"a pipeline has an earlier version than before", NotBackward, func(h *history.Rules) {
		h.Decisions = append(h.Decisions, decision(5, 64, 68, 3, 14), decision(5, 64, 68, 2, 12))
	}},
	{"another client has an earlier version", NotBackward, func(h *history.Rules) { h.Decisions = append(h.Decisions, decision(5, 70, 71, 2, 12)) }},
	{"an acknowledged change is not used", NotBackward, func(h *history.Rules) { h.Decisions[5].Version, h.Decisions[5].Contents = 1, [2]int64{11, 11} }},
	{"a change has an earlier version than a decision before it", NotBackward, func(h *history.Rules) {
		h.Changes[1].Call, h.Changes[1].Return = 91, 92
		h.Decisions[1].Return, h.Decisions[5].Return = 91, 91
		h.Changes[1].Call = 85
		h.Decisions[1].Call, h.Decisions[5].Call, h.Decisions[6].Call = 85, 85, 85
		h.Decisions[1].Client, h.Decisions[5].Client, h.Decisions[6].Client = 6, 7, 8
		h.Decisions[6].Return = 91
	}},
}

func TestVersions(t *testing.T) {
	if faults := Versions(goodRules()); len(faults) > 0 {
		t.Errorf("a history without violations: got %v, want none", faults)
	}
	if faults := Versions(&history.Rules{}); len(faults) > 0 {
		t.Errorf("an empty history: got %v, want none", faults)
	}
	for _, tt := range badRules {
		h := goodRules()
		tt.spoil(h)
		faults := Versions(h)
		if !slices.ContainsFunc(faults, func(f RuleFault) bool { return f.Guarantee == tt.guarantee }) {
			t.Errorf("%s: got %v, want a violation of %q", tt.name, faults, tt.guarantee)
		}
	}
}

// TestVersions_Limits checks that the faults of a history with many violations are not all returned.
func TestVersions_Limits(t *testing.T) {
	h := goodRules()
	for i := range 100 {
		h.Decisions = append(h.Decisions, decision(10+i, 100, 101, 1, 11))
	}
	faults := Versions(h)
	if len(faults) != mostFaults+1 || faults[mostFaults].Text != "97 more" {
		t.Errorf("100 violations: got %v, want the first %d and the number of the others", faults, mostFaults)
	}
}

// rulesRun simulates a run: a set of versions that is changed in one order, and clients that read the newest one at a
// moment between their request and the reply.
func rulesRun(r *rand.Rand) *history.Rules {
	h := &history.Rules{}
	version, content, now := uint64(0), int64(0), int64(0)
	busy := map[int]int64{} // time until which a client waits for a reply
	for range 2000 {
		now += 1 + r.Int64N(20)
		if r.IntN(10) == 0 {
			content++
			c := history.Change{Content: content, Call: now - r.Int64N(5), Return: now + r.Int64N(5), Outcome: history.Outcome(r.IntN(3))}
			applied := c.Outcome == history.Granted || c.Outcome == history.Unknown && r.IntN(2) == 0
			if applied {
				version++
				h.Listed = append(h.Listed, history.Version{Number: version, Content: content})
			}
			switch c.Outcome {
			case history.Granted:
				if c.Version = version; r.IntN(2) == 0 {
					c.Base = version - 1
				}
			case history.Unknown:
				c.Return = history.Never
			}
			h.Changes = append(h.Changes, c)
			continue
		}
		client := r.IntN(5)
		if version == 0 || busy[client] >= now {
			continue
		}
		newest := h.Listed[len(h.Listed)-1].Content
		d := decision(client, max(busy[client]+1, now-r.Int64N(30)), now+r.Int64N(30), version, newest)
		busy[client] = d.Return
		h.Decisions = append(h.Decisions, d)
	}
	return h
}

// TestVersions_IsSound checks that no violation is found in simulated runs, and that one wrong version is found if a
// later version was known before.
func TestVersions_IsSound(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		h := rulesRun(r)
		if faults := Versions(h); len(faults) > 0 {
			t.Fatalf("seed %d: false violations: %v", seed, faults)
		}
		known := uint64(0)
		late := slices.IndexFunc(h.Decisions, func(d history.Decision) bool {
			known = 0
			for _, before := range h.Decisions {
				if before.Return < d.Call {
					known = max(known, before.Version)
				}
			}
			return known > 50
		})
		d := &h.Decisions[late]
		d.Version = known - 1
		d.Contents = [2]int64{h.Listed[d.Version-1].Content, h.Listed[d.Version-1].Content}
		if faults := Versions(h); len(faults) == 0 || faults[0].Guarantee != NotBackward {
			t.Errorf("seed %d: decision %d has version %d after %d was known: got %v, want a violation", seed, late, d.Version, known, faults)
		}
	}
}

// TestVersions_IsFast checks that a million decisions are checked in seconds, or minutes on a busy machine.
func TestVersions_IsFast(t *testing.T) {
	h := &history.Rules{Changes: []history.Change{{Content: 1, Version: 1, Return: 1}}, Listed: []history.Version{{Number: 1, Content: 1}}}
	for i := range 1_000_000 {
		h.Decisions = append(h.Decisions, decision(i%10, int64(i), int64(i+9), 1, 1))
	}
	begin := time.Now()
	if faults := Versions(h); len(faults) > 0 {
		t.Error(faults)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("Versions took %s, want at most 5 minutes", took)
	}
}
