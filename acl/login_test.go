package acl

import "testing"

// TestLoginEndsWithItsUser checks that a login ends when its user is deleted, and does not belong to a later user of the same
// name.
func TestLoginEndsWithItsUser(t *testing.T) {
	s := mustParse(t, "user app on nopass\n")
	first := NewLogin(s.Get("app"))
	check := func(step string, l Login, s *Set, want *User) {
		t.Helper()
		if got := l.Of(s); got != want {
			t.Errorf("%s: the user of the login is %v, want %v", step, got, want)
		}
	}
	check("at the start", first, s, s.Get("app"))
	changed, err := s.Get("app").Apply(testCatalog, "reset", "on", "nopass", "+ttl")
	if err != nil {
		t.Fatal(err)
	}
	s = s.With(changed)
	check("after a change", first, s, s.Get("app"))
	s = s.Without("app")
	check("after the deletion", first, s, nil)
	s = s.With(changed)
	check("after the user was created again", first, s, nil)
	second := NewLogin(s.Get("app"))
	check("after the user was created again", second, s, s.Get("app"))
	check("the user default", Login{}, s, s.Default())

	loaded := mustParse(t, "user app on nopass +ttl\nuser new on nopass\n")
	loaded.Follow(s)
	check("after ACL LOAD", second, loaded, loaded.Get("app"))
	check("after ACL LOAD", first, loaded, nil)
	added := NewLogin(loaded.Get("new"))
	again := mustParse(t, "user app on nopass\nuser new on nopass\n")
	again.Follow(loaded.Without("new"))
	check("after ACL LOAD with a user that was deleted before", added, again, nil)

	replicated := mustParse(t, "user default on\nuser app on nopass\nuser new on nopass\n")
	replicated.SetCreated(map[string]uint64{"default": 7, "app": 9})
	check("the user default", Login{}, replicated, replicated.Default())
	check("another number", second, replicated, nil)
	check("no number", NewLogin(mustParse(t, "user new on\n").Get("new")), replicated, replicated.Get("new"))
}
