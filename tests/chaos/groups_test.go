package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// TestSidecarsRules runs the scenario sidecars-rules for a short time. Then a deliberate bug is enabled: sidecars charge only the
// first limit of a group. The checks must detect it.
func TestSidecarsRules(t *testing.T) {
	l, _ := openLab(t, "-for", "4s", "-rate", "150")
	repeatWhileBusy(t, func() ([]finding, error) {
		l.out = &report{w: t.Output()}
		err := sidecarsRules(t.Context(), l)
		return l.out.findings, err
	})
	l.nodes = 1
	repeatWhileBusy(t, func() (missing []finding, err error) {
		findings, err := l.huntSidecars(t.Context(), failpoint.LesseeGroup)
		for _, checker := range []string{"interval", "spent"} {
			if !slices.ContainsFunc(findings, func(f finding) bool { return f.checker == checker }) {
				missing = append(missing, finding{"pressure", "the bug is not found by " + checker})
			}
		}
		return missing, err
	})
}

// TestRulesKeys checks that the rules are valid, and that the limits of each request are those that match it.
func TestRulesKeys(t *testing.T) {
	file, err := rules.Parse("rules", []byte(groupsRules), time.LoadLocation)
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRulesKeys()
	groups := []*group{r.queued()}
	for path := range r.paths {
		for user := range r.users {
			groups = append(groups, r.check(path, user, ""), r.check(path, user, leasedAccount))
		}
	}
	for _, g := range groups {
		var pairs [][]byte
		for _, word := range g.words[2:] {
			pairs = append(pairs, []byte(word))
		}
		var m rules.Matches
		if err := set.Domain([]byte(g.words[1])).Match(pairs, time.Now(), &m); err != nil {
			t.Fatalf("%v: %v", g.words, err)
		}
		var got, want []string
		for _, one := range m.List {
			got = append(got, fmt.Sprint(one.Limit.Name, one.Counters[0].Limit.Max, one.Limit.Shadow))
		}
		for _, l := range g.limits {
			want = append(want, fmt.Sprint(l.name, l.limit, l.shadow))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v matches the limits %v, want %v", g.words, got, want)
		}
	}
}

// five returns a reply of one limit.
func five(limited, limit, remaining int64) string {
	return fmt.Sprintf("*5 :%d :%d :%d :-1 :7", limited, limit, remaining)
}

// allReply returns a reply to CL.ALL of the pairs with the numbers 0 and 1, which have the limits 160 and 3360.
func allReply(limited, first, second int64) string {
	return fmt.Sprintf("*7 :%d :160 :3 :-1 :7 %s %s", limited, five(first, 160, 3), five(second, 3360, 4))
}

// groupReply returns a reply to the CL.CHECK of path 0 and user 0. The arguments are 1 for each refusal: of the request, of
// the path, of the user, and of the shadow limit.
func groupReply(limited, path, user, trial int64) string {
	text := checkReply(1, shown("gcra", path, 4500, 5), shown("small", user, 300, 6), shown("trial", trial, 1500, 7))
	return strings.Replace(text, ":0", fmt.Sprint(":", limited), 1)
}

// TestReadGroup checks that invalid replies are found.
func TestReadGroup(t *testing.T) {
	list, r := pairs(), newRulesKeys()
	all, one, checked := allOf(&list[0], &list[1]), oneOf(&list[0]), r.check(0, 0, "")
	for _, tt := range []struct {
		group *group
		text  string
		left  []int64 // of each limit; nil for an invalid reply
	}{
		{one, five(0, 160, 9), []int64{9}}, {one, five(1, 160, 0), []int64{0}}, {one, five(0, 161, 9), nil}, {one, "*1 :0", nil},
		{all, allReply(0, 0, 0), []int64{3, 4}}, {all, allReply(1, 0, 1), []int64{3, 4}}, {all, allReply(0, 0, 1), nil}, {all, allReply(1, 0, 0), nil},
		{all, five(0, 160, 9), nil}, {all, "*1 :0", nil},
		{checked, groupReply(0, 0, 0, 0), []int64{5, 6, 7}}, {checked, groupReply(1, 0, 1, 0), []int64{5, 6, 7}},
		{checked, groupReply(0, 0, 0, 1), []int64{5, 6, 7}}, {checked, groupReply(1, 0, 0, 1), nil}, {checked, groupReply(0, 1, 0, 0), nil},
		{checked, checkReply(1, shown("gcra", 0, 4500, 5), shown("small", 0, 300, 6)), nil}, {checked, ":1", nil},
		{r.check(1, 0, ""), groupReply(0, 0, 0, 0), nil},
	} {
		got, err := tt.group.read(parseReply(t, tt.text))
		var left []int64
		for _, s := range got {
			left = append(left, s.remaining)
		}
		if !slices.Equal(left, tt.left) || (err != nil) != (tt.left == nil) {
			t.Errorf("%v: %s: remaining units %v, error %v; want %v", tt.group.words, tt.text, left, err, tt.left)
		}
	}
	if err := one.full(parseReply(t, five(0, 160, 160))); err != nil {
		t.Errorf("all units remain: %v", err)
	}
	if err := one.full(parseReply(t, five(0, 160, 159))); err == nil {
		t.Error("a unit is in use: no error, want one")
	}
}

// TestCharge checks the records of groups: all limits of an admitted request are charged and none of a refused one. A shadow limit
// is charged unless it refuses the request itself.
func TestCharge(t *testing.T) {
	list, r := pairs(), newRulesKeys()
	all, checked := allOf(&list[0], &list[1]), r.check(0, 0, "")
	const failed = "*9 :%d :0 :0 :1 :1 $1 a *1 $10 failclosed *0 :9"
	for _, tt := range []struct {
		group   *group
		text    string
		want    []history.Outcome
		strange int // invalid replies
	}{
		{all, allReply(0, 0, 0), []history.Outcome{history.Granted, history.Granted}, 0},
		{all, allReply(1, 1, 0), []history.Outcome{history.Limited, history.Limited}, 0},
		{all, allReply(0, 1, 0), nil, 1},
		{all, "-LOADING x", nil, 0},
		{all, "-UNCERTAIN x", []history.Outcome{history.Unknown, history.Unknown}, 0},
		{checked, groupReply(0, 0, 0, 0), []history.Outcome{history.Granted, history.Granted, history.Granted}, 0},
		{checked, groupReply(0, 0, 0, 1), []history.Outcome{history.Granted, history.Granted, history.Limited}, 0},
		{checked, groupReply(1, 0, 1, 0), []history.Outcome{history.Limited, history.Limited, history.Granted}, 0},
		{checked, fmt.Sprintf(failed, 1), []history.Outcome{history.Unknown, history.Unknown, history.Unknown}, 0},
		{checked, fmt.Sprintf(failed, 0), []history.Outcome{history.Unknown, history.Unknown, history.Unknown}, 1},
	} {
		text := strings.ReplaceAll(tt.text, " ", "\r\n") + "\r\n"
		if tt.text[0] == '-' {
			text = tt.text + "\r\n"
		}
		c := newLoyal(0, answer(t, text), newClock(), 1)
		c.charge(tt.group)
		var got []history.Outcome
		for i, o := range c.ops {
			if got = append(got, o.Outcome); o.Key != tt.group.limits[i].of || o.Quantity != 1 || (o.Return == history.Never) != (o.Outcome == history.Unknown) {
				t.Errorf("%s: record %+v", tt.text, o)
			}
		}
		if !slices.Equal(got, tt.want) || len(c.errs) != tt.strange {
			t.Errorf("%s: the outcomes are %v, invalid replies %v; want %v, %d", tt.text, got, c.errs, tt.want, tt.strange)
		}
	}
}

// TestJudgeAccount checks that lost units are found, and charges by refused requests of the account that is not leased.
func TestJudgeAccount(t *testing.T) {
	for _, tt := range []struct {
		account string
		check.Account
		bad bool
	}{
		{leasedAccount, check.Account{Acknowledged: 5, Open: 2, Used: 5}, false},
		{leasedAccount, check.Account{Acknowledged: 5, Open: 2, Used: 9}, false},
		{leasedAccount, check.Account{Acknowledged: 5, Open: 2, Used: 4}, true},
		{queuedAccount, check.Account{Acknowledged: 5, Open: 2, Used: 7}, false},
		{queuedAccount, check.Account{Acknowledged: 5, Open: 2, Used: 8}, true},
		{queuedAccount, check.Account{Acknowledged: 5, Open: 2, Used: 4}, true},
	} {
		if err := judgeAccount(tt.account, tt.Account); (err != nil) != tt.bad {
			t.Errorf("%s, %s: error %v, want one: %t", tt.account, tt.Account, err, tt.bad)
		}
	}
}

// TestSpentOnce checks that units that were spent twice, or are missing, are found.
func TestSpentOnce(t *testing.T) {
	for admitted, want := range map[string]bool{"5": true, "4": false, "6": false} {
		info := map[string]string{"lessee_drawn_units": "10", "lessee_admitted": admitted, "lessee_returned_units": "3", "lessee_lost_units": "2"}
		if err := spentOnce(info); (err == nil) != want {
			t.Errorf("%s of 5 units are spent by admissions: error %v", admitted, err)
		}
	}
}
