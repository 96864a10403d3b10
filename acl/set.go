package acl

import (
	"bytes"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
)

// Set is an immutable set of users. It always contains the user "default".
//
// The user "default" is explicit if a rule was applied to it. Otherwise it has all permissions, and its password is that
// of the option requirepass (see Store.FollowPassword); Text does not contain it.
type Set struct {
	// Version is the number of the version. With and Without increase it by one. It may be changed before the set is
	// shared.
	Version uint64

	users       map[string]*User
	explicit    bool // the user "default" is explicit
	comparisons int  // number of comparisons of a login: the maximum number of passwords of a user, at least 1
}

// NewSet returns a set with only the user "default", which is not explicit and needs no password.
func NewSet(c *Catalog) *Set {
	return newSet(0, map[string]*User{DefaultName: newDefault(c)}, false)
}

func newSet(version uint64, users map[string]*User, explicit bool) *Set {
	s := &Set{Version: version, users: users, explicit: explicit, comparisons: 1}
	for _, u := range users {
		s.comparisons = max(s.comparisons, len(u.login.digests))
	}
	return s
}

// Get returns the user with a name, or nil if there is none.
func (s *Set) Get(name string) *User { return s.users[name] }

// Default returns the user "default".
func (s *Set) Default() *User { return s.users[DefaultName] }

// DefaultIsExplicit reports whether a rule was applied to the user "default", so that its password is not that of
// requirepass.
func (s *Set) DefaultIsExplicit() bool { return s.explicit }

// Open reports whether clients may run commands without a login.
func (s *Set) Open() bool {
	u := s.Default()
	return u.login.enabled && u.login.noPass
}

// Len returns the number of users.
func (s *Set) Len() int { return len(s.users) }

// Users returns all users in the order of their names.
func (s *Set) Users() []*User {
	list := make([]*User, 0, len(s.users))
	for _, name := range slices.Sorted(maps.Keys(s.users)) {
		list = append(list, s.users[name])
	}
	return list
}

// Authenticate returns the user with a name, or nil if the user does not exist or is disabled, or the password is wrong.
// The time that it takes does not depend on which of these is the case.
func (s *Set) Authenticate(name, password []byte) *User {
	u, found := s.users[string(name)]
	if !found {
		u = &unknown
	}
	if u.login.accept(digestOf(string(password)), s.comparisons) == 1 {
		return u
	}
	return nil
}

// SplitToken returns the user and the password of a token, which is the credential of protocols with a single text. It is
// the password of the user "default", or NAME:PASSWORD. If there is a user NAME, it is always the latter.
func (s *Set) SplitToken(token []byte) (name, password []byte) {
	if before, after, found := bytes.Cut(token, []byte{':'}); found && s.users[string(before)] != nil {
		return before, after
	}
	return []byte(DefaultName), token
}

// IsPassword reports whether a text is the password of a user. It is for texts that a client has sent in the wrong place,
// and that must not be shown then.
func (s *Set) IsPassword(text []byte) bool {
	d, found := digestOf(string(text)), 0
	for _, u := range s.users {
		for i := range u.login.digests {
			found |= subtle.ConstantTimeCompare(d[:], u.login.digests[i][:])
		}
	}
	return found == 1
}

// unknown stands for users that do not exist. It has no passwords, so that no login succeeds.
var unknown User

// With returns a set in which u replaces the user of the same name, or is added. If u is the user "default", it becomes
// explicit. The creation number of an added user is the version of the returned set.
func (s *Set) With(u *User) *Set {
	users := maps.Clone(s.users)
	changed := *u
	changed.created = s.creation(u.name, s.Version+1)
	users[u.name] = &changed
	return newSet(s.Version+1, users, s.explicit || u.name == DefaultName)
}

// creation returns the creation number of a user: that of the user of this name in s, or otherwise next.
func (s *Set) creation(name string, next uint64) uint64 {
	if old := s.users[name]; old != nil {
		return old.created
	}
	return next
}

// SetCreated sets the creation numbers of users by name; a user without a number has 0. It must be called before the set is
// shared.
func (s *Set) SetCreated(numbers map[string]uint64) {
	for name, u := range s.users {
		if name != DefaultName {
			u.created = numbers[name]
		}
	}
}

// Follow makes s the version after another set: users that both contain keep their creation numbers. It must be called
// before s is shared.
func (s *Set) Follow(old *Set) {
	s.Version = old.Version + 1
	for name, u := range s.users {
		u.created = old.creation(name, s.Version)
	}
}

// Without returns a set without the users with the given names. The user "default" cannot be removed.
func (s *Set) Without(names ...string) *Set {
	users := maps.Clone(s.users)
	for _, name := range names {
		if name != DefaultName {
			delete(users, name)
		}
	}
	return newSet(s.Version+1, users, s.explicit)
}

// withDefaultPassword returns a set in which the user "default" has a password, or needs none if password is "". If the
// user is explicit, the set is unchanged.
func (s *Set) withDefaultPassword(password string) *Set {
	if s.explicit || s.Default().hasOnly(password) {
		return s
	}
	users := maps.Clone(s.users)
	users[DefaultName] = s.Default().withPassword(password)
	return newSet(s.Version, users, false)
}

// Text returns the users in the format of Redis's ACL files: a line for each user, in the order of the names. It
// contains the user "default" only if it is explicit. Passwords are digests.
func (s *Set) Text() string {
	var b strings.Builder
	for _, u := range s.Users() {
		if u.name == DefaultName && !s.explicit {
			continue
		}
		b.WriteString(u.Text())
		b.WriteByte('\n')
	}
	return b.String()
}
