package acl

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse checks that a text is parsed without a panic, that the text of the result has the same meaning, and that no
// error contains a word that may be a password.
func FuzzParse(f *testing.F) {
	f.Add("user app on >pw ~app:* resetchannels &x -@all +cl.throttle domain:web\n")
	f.Add("user default on nopass sanitize-payload ~* &* +@all alldomains\r\nuser b off %R~a %W~a -client|kill +client\n")
	f.Add("user a reset on nopass +@limits -ttl +@all\n\nuser b (~x) +ttl")
	f.Add("user a #" + hashOfSecret + " !" + hashOfSecret + " <x >y")
	f.Add("user a %R~* %W~*\nuser b %W~b %R~*")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse(text, testCatalog)
		if errors.Is(err, ErrEncoding) {
			return // ParseStored does not check the encoding
		}
		stored, errs := ParseStored(text, testCatalog)
		if (err == nil) != (len(errs) == 0) {
			t.Fatalf("Parse: %v, ParseStored: %v", err, errs)
		}
		if err != nil {
			if again, _ := ParseStored(stored.Text(), testCatalog); again.Text() != stored.Text() {
				t.Errorf("the stored text is %q, parsed again %q", stored.Text(), again.Text())
			}
			checkDisabled(t, stored)
			return
		}
		for _, name := range Names(text) {
			if set.Get(name) == nil {
				t.Errorf("Names returns %q, which is not a user", name)
			}
		}
		if n, want := len(Names(set.Text())), len(set.Users())-bit(!set.DefaultIsExplicit()); n != want {
			t.Errorf("Names returns %d names of %q, want %d", n, set.Text(), want)
		}
		again := mustParse(t, set.Text())
		for _, u := range set.Users() {
			other := again.Get(u.Name())
			if other == nil || !u.Same(other) || runs(u) != runs(other) || u.Unrestricted() != other.Unrestricted() {
				t.Errorf("the user is %q, parsed again %v", u.Text(), other)
			}
		}
		for _, line := range strings.Split(set.Text(), "\n") {
			for _, word := range strings.Fields(line)[min(2, len(strings.Fields(line))):] {
				if word[0] == '>' {
					t.Errorf("the text contains a password: %q", line)
				}
			}
		}
	})
}

// checkDisabled checks that users with unknown rules can do nothing.
func checkDisabled(t *testing.T, set *Set) {
	t.Helper()
	for _, u := range set.Users() {
		if u.unknown != "" && (u.Enabled() || runs(u) != "" || set.Authenticate([]byte(u.Name()), nil) != nil) {
			t.Errorf("the user %q with unknown rules has permissions", u.Name())
		}
	}
}
