package acl

import (
	"errors"
	"strings"
	"testing"
)

// Bits of the categories of testCatalog.
const (
	catLimits = 1 << iota
	catRead
	catAdmin
	catConnection
)

// testCatalog has a few commands with and without subcommands.
var testCatalog = NewCatalog([]string{"limits", "read", "admin", "connection", "string"}, []Command{
	{Name: "cl.throttle", Categories: catLimits},
	{Name: "cl.check", Categories: catLimits},
	{Name: "ttl", Categories: catRead},
	{Name: "exists", Categories: catRead},
	{Name: "client"},
	{Name: "client|id", Categories: catConnection},
	{Name: "client|kill", Categories: catConnection | catAdmin},
	{Name: "config"},
	{Name: "config|set", Categories: catAdmin},
	{Name: "auth", Categories: catConnection, Always: true},
})

// id returns the id of a command of testCatalog.
func id(name string) int { return testCatalog.byName[name] }

// mustApply applies rules, separated by spaces, to a new user.
func mustApply(t testing.TB, rules string) *User {
	t.Helper()
	u, err := NewUser("bob", testCatalog).Apply(testCatalog, strings.Fields(rules)...)
	if err != nil {
		t.Fatalf("apply %q: %v", rules, err)
	}
	return u
}

func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Parse(text, testCatalog)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return set
}

// runs returns the names of the commands that a user may run, except auth, which all users may run.
func runs(u *User) string {
	var names []string
	for i, cmd := range testCatalog.commands {
		if u.MayRun(i) && cmd.Name != "auth" {
			names = append(names, cmd.Name)
		}
	}
	return strings.Join(names, " ")
}

// wrong checks that err is the error of a word for a reason.
func wrong(t *testing.T, err error, reason error) {
	t.Helper()
	if rule := new(RuleError); !errors.As(err, &rule) || !errors.Is(err, reason) {
		t.Errorf("the error is %v, want %v in a RuleError", err, reason)
	}
}
