package acl

// Login is a user as which a client has authenticated. It ends when the user is deleted, even if a user with the same name
// is created afterwards. The zero Login is the user "default". Logins are comparable.
type Login struct {
	name    string
	created uint64 // creation number of the user
}

// NewLogin returns the login of a user.
func NewLogin(u *User) Login { return Login{u.name, u.created} }

// Name returns the name of the user.
func (l Login) Name() string {
	if l.name == "" {
		return DefaultName
	}
	return l.name
}

// Of returns the user of a login in a set, or nil if that user was deleted since the login.
func (l Login) Of(s *Set) *User {
	if u := s.Get(l.Name()); u != nil && u.created == l.created {
		return u
	}
	return nil
}
