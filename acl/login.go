package acl

// Login is a user as which a client has authenticated. The zero Login is the user "default".
type Login struct{ name string }

// NewLogin returns the login of a user.
func NewLogin(u *User) Login { return Login{u.name} }

// Name returns the name of the user.
func (l Login) Name() string {
	if l.name == "" {
		return DefaultName
	}
	return l.name
}
