package acl

import (
	"errors"
	"strings"
	"testing"
)

// TestNewSet checks that the user "default" exists, and that the set is open.
func TestNewSet(t *testing.T) {
	s := NewSet(testCatalog)
	if got := s.Default().Text(); got != "user default on nopass ~* &* +@all alldomains" {
		t.Errorf("the user default is %q", got)
	}
	if !s.Open() || s.DefaultIsExplicit() || s.Text() != "" || s.Len() != 1 {
		t.Errorf("open %t, explicit %t, %d users, text %q", s.Open(), s.DefaultIsExplicit(), s.Len(), s.Text())
	}
}

// TestAuthenticate checks which logins succeed.
func TestAuthenticate(t *testing.T) {
	s := mustParse(t, "user app on >one >two +ttl\nuser off >one +ttl\nuser free on nopass\nuser none on\n")
	for _, test := range []struct {
		name, password string
		ok             bool
	}{
		{"app", "one", true},
		{"app", "two", true},
		{"app", "three", false},
		{"app", "", false},
		{"off", "one", false},
		{"free", "anything", true},
		{"free", "", true},
		{"none", "", false},
		{"unknown", "one", false},
		{"unknown", "", false},
		{"APP", "one", false},
		{"", "", false},
		{"default", "", true},
	} {
		u := s.Authenticate([]byte(test.name), []byte(test.password))
		if (u != nil) != test.ok {
			t.Errorf("login of %q with %q: %v, want success %t", test.name, test.password, u, test.ok)
		}
		if u != nil && u.Name() != test.name {
			t.Errorf("login of %q returned user %q", test.name, u.Name())
		}
	}
}

// TestIsPassword recognizes the passwords of enabled and disabled users.
func TestIsPassword(t *testing.T) {
	s := mustParse(t, "user app on >one >two +ttl\nuser off >three\n")
	for text, want := range map[string]bool{"one": true, "two": true, "three": true, "app": false, "": false} {
		if got := s.IsPassword([]byte(text)); got != want {
			t.Errorf("IsPassword(%q) is %t, want %t", text, got, want)
		}
	}
}

// TestAuthenticateComparesEqually checks that a login makes the same number of comparisons for every user: as many as
// the user with the most passwords has.
func TestAuthenticateComparesEqually(t *testing.T) {
	s := mustParse(t, "user one on >a\nuser three on >a >b >c\n")
	if s.comparisons != 3 {
		t.Errorf("a login makes %d comparisons, want 3", s.comparisons)
	}
	if s = s.Without("three"); s.comparisons != 1 {
		t.Errorf("a login makes %d comparisons without the user, want 1", s.comparisons)
	}
	zero := credentials{enabled: true}
	if zero.accept(digest{}, 3) != 0 {
		t.Error("the digest that replaces missing passwords is accepted")
	}
}

// TestWithWithout checks that changes make new sets, with new versions.
func TestWithWithout(t *testing.T) {
	s := NewSet(testCatalog)
	s.Version = 7
	bob := mustApply(t, "on +ttl")
	with := s.With(bob)
	if with.Version != 8 || !with.Get("bob").Same(bob) || s.Get("bob") != nil || with.DefaultIsExplicit() {
		t.Errorf("with a user: version %d, %v; before: %v", with.Version, with.Get("bob"), s.Get("bob"))
	}
	without := with.Without("bob", "nobody", DefaultName)
	if without.Version != 9 || without.Get("bob") != nil || without.Default() == nil || with.Get("bob") == nil {
		t.Errorf("without the user: version %d, %v", without.Version, without.Get("bob"))
	}
	changed, err := s.Default().Apply(testCatalog, ">secret")
	if err != nil {
		t.Fatal(err)
	}
	if s = s.With(changed); !s.DefaultIsExplicit() || s.Open() || !strings.HasPrefix(s.Text(), "user default on #"+hashOfSecret) {
		t.Errorf("an explicit default: open %t, %q", s.Open(), s.Text())
	}
}

// TestParse checks the users of a text, and that the text of the result is sorted.
func TestParse(t *testing.T) {
	s := mustParse(t, "\r\n  user zoe on +ttl\r\n\nuser  app\ton >secret ~app:* +@limits\n")
	want := "user app on #" + hashOfSecret + " ~app:* resetchannels -@all +@limits\n" +
		"user zoe on resetchannels -@all +ttl\n"
	if got := s.Text(); got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	if s.Version != 0 || s.DefaultIsExplicit() || !s.Open() {
		t.Errorf("version %d, explicit %t", s.Version, s.DefaultIsExplicit())
	}
	s = mustParse(t, "user default off\n")
	if s.Open() || !s.DefaultIsExplicit() || s.Default().MayRun(id("ttl")) {
		t.Errorf("the default user is %q", s.Default().Text())
	}
}

// TestParseErrors checks that errors name the line and the user, and contain no password.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"bob on":                           "line 1: a line must begin with the word user and a name: user NAME RULE ...",
		"user":                             "line 1: a line must begin with the word user and a name: user NAME RULE ...",
		"# comment":                        "line 1: a line must begin with the word user and a name: user NAME RULE ...",
		"user a on\n\nuser a off":          "line 3: user a: the user is defined twice: remove one of the lines",
		"user a on\nuser b +nonsense99x":   `line 2: user b: rule 1, "+nonsense99x": Unknown command or category name in ACL`,
		"user b on hunter2secret":          `line 1: user b: rule 2, "(hidden)": Syntax error`,
		"user b on (~a +ttl)":              `line 1: user b: rule 2, "(~a": Selectors are not supported: define another user for the other permissions`,
		"user " + strings.Repeat("n", 257): "line 1: Usernames must have 1 to 256 bytes",
		"user b +ttl|x":                    `line 1: user b: rule 1, "+ttl|x": Rules for the first argument of a command are not supported: permit or forbid the whole command`,
	} {
		set, err := Parse(text, testCatalog)
		if err == nil || err.Error() != want || set != nil {
			t.Errorf("%q: the error is %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"\x00\x00", "user a on\n\x00\x00", "\ufeffuser a on\n", "\xff\xfeu\x00s\x00e\x00r\x00"} {
		if set, err := Parse(text, testCatalog); set != nil || !errors.Is(err, ErrEncoding) {
			t.Errorf("%q: the error is %v, want ErrEncoding", text, err)
		}
	}
	if _, err := Parse(strings.Repeat("\n", MaxText+1), testCatalog); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long text: %v", err)
	}
}

// TestParseStored checks that a user with unknown rules is disabled, keeps its line, and does not affect other users.
func TestParseStored(t *testing.T) {
	const text = "user app on resetchannels -@all +ttl\nuser new on nopass ~* +@all +cl.future\n"
	s, errs := ParseStored(text, testCatalog)
	if len(errs) != 1 || !errors.Is(errs[0], ErrUnknownCommand) {
		t.Fatalf("the errors are %v", errs)
	}
	if got := s.Text(); got != text {
		t.Errorf("the text is %q, want %q", got, text)
	}
	u := s.Get("new")
	if s.Authenticate([]byte("new"), nil) != nil || runs(u) != "" || u.MayAccess([]byte("k"), 0) || u.Enabled() {
		t.Errorf("the user with unknown rules has permissions: %q", runs(u))
	}
	_, err := u.Apply(testCatalog, "on", "+ttl")
	wrong(t, err, ErrUnknownRules)
	if u, err = u.Apply(testCatalog, "reset", "+ttl"); err != nil || u.Text() != "user new off resetchannels -@all +ttl" {
		t.Errorf("after a reset the user is %v, error %v", u, err)
	}
	s, errs = ParseStored("user default on >secret +nonsense\nuser default on nopass\nnonsense\n", testCatalog)
	if s.Open() || len(errs) != 3 || s.Default().Enabled() {
		t.Errorf("with unknown rules of the default user: open %t, errors %v", s.Open(), errs)
	}
	if s, errs = ParseStored(strings.Repeat("\n", MaxText+1), testCatalog); s != nil || len(errs) != 1 {
		t.Errorf("a long text: %v, %v", s, errs)
	}
}

// TestStore checks that the user "default" follows the password, unless it is explicit.
func TestStore(t *testing.T) {
	store := NewStore(NewSet(testCatalog))
	changed := store.Changed()
	store.FollowPassword("")
	if isClosed(changed) {
		t.Error("the same password has changed the set")
	}
	store.FollowPassword("secret")
	if s := store.Get(); s.Open() || s.Authenticate([]byte("default"), []byte("secret")) == nil || s.Text() != "" || !isClosed(changed) {
		t.Errorf("with a password: open %t, %q", s.Open(), s.Default().Text())
	}
	store.Replace(mustParse(t, "user app on nopass"))
	if s := store.Get(); s.Open() || s.Get("app") == nil {
		t.Error("another set does not have the password")
	}
	store.FollowPassword("")
	if !store.Get().Open() {
		t.Error("the set is not open without a password")
	}
	store.Replace(mustParse(t, "user default on >other"))
	store.FollowPassword("secret")
	if s := store.Get(); s.Authenticate([]byte("default"), []byte("secret")) != nil || s.Authenticate([]byte("default"), []byte("other")) == nil {
		t.Error("an explicit user follows the password")
	}
	old := store.Get()
	if !store.CompareAndReplace(old, old.Without()) || store.CompareAndReplace(old, old) {
		t.Error("compare and replace does not compare")
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
