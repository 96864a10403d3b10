package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DefaultName is the name of the user as which a new connection runs commands, until it logs in.
const DefaultName = "default"

// User is a user with its passwords and permissions. It is immutable.
type User struct {
	name string
	// created is the creation number. A user that is deleted and created again has another number. The user "default", which
	// always exists, has 0.
	created  uint64
	login    credentials
	commands commandRules
	keys     keyPatterns
	channels patterns
	domains  patterns

	unrestricted bool // every command, key, channel and domain is permitted
	// unknown is the line of a user whose rules this version of the program cannot parse. The user is disabled, and may
	// run no command. "" for other users.
	unknown string
}

// NewUser returns a user that is disabled and has no password and no permissions. The name must be valid (see
// CheckName).
func NewUser(name string, c *Catalog) *User {
	return &User{name: name, commands: noCommands(c)}
}

// newDefault returns the user "default" as it is before any rule is applied: enabled and without a password, with all
// permissions.
func newDefault(c *Catalog) *User {
	u := &User{
		name: DefaultName, login: credentials{enabled: true, noPass: true}, commands: everyCommand(c),
		keys: keyPatterns{all: true}, channels: patterns{all: true}, domains: patterns{all: true},
	}
	return u.sealed()
}

// sealed sets the fields that are derived from others. It must be called before the user is returned.
func (u *User) sealed() *User {
	u.unrestricted = u.commands.all && u.keys.all && u.channels.all && u.domains.all
	return u
}

// maxName is the maximum length of the name of a user, in bytes.
const maxName = 256

// Errors of CheckName. The text of ErrName is that of Redis.
var (
	ErrName       = errors.New("Usernames can't contain spaces or null characters")
	ErrNameLength = fmt.Errorf("Usernames must have 1 to %d bytes", maxName)
)

// CheckName returns an error if the name of a user is invalid. It returns ErrNameLength for a name that is empty or longer than
// 256 bytes, and ErrName for one with spaces or control characters, which would break the lines of files and logs.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return ErrNameLength
	case hasSpace(name):
		return ErrName
	}
	return nil
}

// hasSpace reports whether a text contains a space or a control character.
func hasSpace(text string) bool {
	return strings.ContainsFunc(text, isSpace)
}

func isSpace(c rune) bool { return c <= ' ' || c == 0x7f }

// Name returns the name of the user.
func (u *User) Name() string { return u.name }

// Enabled reports whether the user can log in.
func (u *User) Enabled() bool { return u.login.enabled }

// NoPassword reports whether the user can log in with any password.
func (u *User) NoPassword() bool { return u.login.noPass }

// Unrestricted reports whether every command, key, channel and domain is permitted.
func (u *User) Unrestricted() bool { return u.unrestricted }

// MayRun reports whether the user may run the command with the given id in the catalog.
func (u *User) MayRun(id int) bool { return u.commands.permits(id) }

// MayAccess reports whether the user may access a key.
func (u *User) MayAccess(key []byte, access Access) bool { return u.keys.permits(key, access) }

// MayUseChannel reports whether the user may publish to a channel or subscribe to it.
func (u *User) MayUseChannel(channel []byte) bool { return u.channels.permits(channel) }

// MayUsePattern reports whether the user may subscribe to a pattern of channels. The rules of the user must contain the
// same pattern.
func (u *User) MayUsePattern(pattern []byte) bool { return u.channels.lists(pattern) }

// MayUseDomain reports whether the user may check and report requests in a domain of the rules.
func (u *User) MayUseDomain(domain []byte) bool { return u.domains.permits(domain) }

// Flags returns the words that ACL GETUSER shows as flags.
func (u *User) Flags() []string {
	return u.login.words()[:1+bit(u.login.noPass)]
}

// Passwords returns the SHA-256 digests of the passwords, in hexadecimal digits.
func (u *User) Passwords() []string {
	list := make([]string, len(u.login.digests))
	for i, d := range u.login.digests {
		list[i] = d.String()
	}
	return list
}

// Commands returns the rules for commands, such as "-@all +cl.throttle".
func (u *User) Commands() string { return u.commands.String() }

// Keys returns the key patterns, such as "~app:* %R~other:*".
func (u *User) Keys() string { return u.keys.String() }

// Channels returns the channel patterns, such as "&news:*".
func (u *User) Channels() string { return strings.Join(u.channels.words("&"), " ") }

// Domains returns the patterns of domains, such as "domain:web domain:api-*".
func (u *User) Domains() string { return strings.Join(u.domainWords(), " ") }

func (u *User) domainWords() []string {
	if u.domains.all {
		return []string{allDomains}
	}
	return u.domains.words(domainPrefix)
}

// Text returns the line of the user in a file, such as "user app on ... ~app:* resetchannels -@all +cl.throttle". Parse
// reads it.
func (u *User) Text() string {
	if u.unknown != "" {
		return u.unknown
	}
	words := append([]string{"user", u.name}, u.login.words()...)
	if keys := u.keys.String(); keys != "" {
		words = append(words, keys)
	}
	if !u.channels.all {
		words = append(words, resetChannels)
	}
	words = append(words, u.channels.words("&")...)
	words = append(words, u.commands.String())
	return strings.Join(append(words, u.domainWords()...), " ")
}

// Same reports whether two users have the same name, passwords and permissions.
func (u *User) Same(other *User) bool { return u.Text() == other.Text() }

// withPassword returns a copy whose only password is the given one, or that needs none if password is "".
func (u *User) withPassword(password string) *User {
	changed := *u
	changed.login.noPass, changed.login.digests = password == "", nil
	if password != "" {
		changed.login.digests = []digest{digestOf(password)}
	}
	return &changed
}

// hasOnly reports whether withPassword would change nothing.
func (u *User) hasOnly(password string) bool {
	if password == "" {
		return u.login.noPass
	}
	return !u.login.noPass && slices.Equal(u.login.digests, []digest{digestOf(password)})
}
