package acl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/internal/nearest"
)

// Errors of rules, wrapped in a *RuleError. Errors that exist in Redis have the same texts.
var (
	ErrUnknownCommand = errors.New("Unknown command or category name in ACL")
	ErrFirstArgument  = errors.New("Rules for the first argument of a command are not supported: permit or forbid the whole command")
	ErrSyntax         = errors.New("Syntax error")
	ErrAllKeys        = errors.New("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns")
	ErrAllChannels    = errors.New("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels")
	ErrAllDomains     = errors.New("Adding a domain after the * pattern (or the 'alldomains' flag) is not valid and does not have any effect. Try 'resetdomains' to start with an empty list of domains")
	ErrNoSuchPassword = errors.New("The password you are trying to remove from the user does not exist")
	ErrDigest         = errors.New("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	ErrSelector       = errors.New("Selectors are not supported: define another user for the other permissions")
	ErrManyPatterns   = fmt.Errorf("A user can have at most %d patterns of keys, of channels and of domains: replace them by fewer patterns with *", MaxPatterns)
	ErrUnknownRules   = errors.New("The user has rules that this version does not support: delete the user, or upgrade this node")
)

// RuleError is the error of one word of the rules of a user.
type RuleError struct {
	Index  int    // index of the wrong word in the rules
	Word   string // the wrong word; hidden if it is or may be a password
	Advice string // a probable correction; "" if there is none
	Err    error
}

func (e *RuleError) Error() string {
	text := fmt.Sprintf("rule %d, %q: %v", e.Index+1, e.Word, e.Err)
	if e.Advice != "" {
		text += fmt.Sprintf(" (did you mean %q?)", e.Advice)
	}
	return text
}

// Unwrap returns the reason.
func (e *RuleError) Unwrap() error { return e.Err }

// Words of rules.
const (
	sanitizePayload = "sanitize-payload"
	resetChannels   = "resetchannels"
	allDomains      = "alldomains"
	domainPrefix    = "domain:"
)

// flagWords are the words of rules without an argument. Case is ignored.
var flagWords = map[string]func(u *User, c *Catalog){
	"on":                      func(u *User, _ *Catalog) { u.login.enabled = true },
	"off":                     func(u *User, _ *Catalog) { u.login.enabled = false },
	"nopass":                  func(u *User, _ *Catalog) { u.login.noPass, u.login.digests = true, nil },
	"resetpass":               func(u *User, _ *Catalog) { u.login.noPass, u.login.digests = false, nil },
	"allkeys":                 func(u *User, _ *Catalog) { u.keys = keyPatterns{all: true} },
	"resetkeys":               func(u *User, _ *Catalog) { u.keys = keyPatterns{} },
	"allchannels":             func(u *User, _ *Catalog) { u.channels = patterns{all: true} },
	resetChannels:             func(u *User, _ *Catalog) { u.channels = patterns{} },
	allDomains:                func(u *User, _ *Catalog) { u.domains = patterns{all: true} },
	"resetdomains":            func(u *User, _ *Catalog) { u.domains = patterns{} },
	"allcommands":             func(u *User, c *Catalog) { u.commands = everyCommand(c) },
	"nocommands":              func(u *User, c *Catalog) { u.commands = noCommands(c) },
	"reset":                   func(u *User, c *Catalog) { *u = *NewUser(u.name, c) },
	sanitizePayload:           func(*User, *Catalog) {}, // this server restores no payloads
	"skip-" + sanitizePayload: func(*User, *Catalog) {},
	"clearselectors":          func(*User, *Catalog) {}, // there are no selectors
}

// Apply returns a copy of the user with rules applied in order. The error is a *RuleError for the first wrong word.
func (u *User) Apply(c *Catalog, rules ...string) (*User, error) {
	changed := *u
	if changed.unknown != "" {
		if len(rules) == 0 || !strings.EqualFold(rules[0], "reset") {
			return nil, &RuleError{Word: u.name, Err: ErrUnknownRules}
		}
	}
	// Clone the lists once: rules append to them.
	changed.keys.list = slices.Clone(u.keys.list)
	changed.channels.list = slices.Clone(u.channels.list)
	changed.domains.list = slices.Clone(u.domains.list)
	for i, word := range rules {
		if err := changed.apply(c, word); err != nil {
			return nil, ruleError(c, i, word, err)
		}
	}
	return changed.sealed(), nil
}

// hidden replaces a word, or its end, that is or may be a password.
const hidden = "(hidden)"

// ruleError returns the error of the rule with an index. It does not contain a password, not even one without the sign
// that precedes it.
func ruleError(c *Catalog, index int, word string, err error) *RuleError {
	e := &RuleError{Index: index, Word: word, Err: err}
	switch {
	case word == "" || strings.IndexByte("~%&(", word[0]) >= 0 || errors.Is(err, ErrFirstArgument):
	case strings.IndexByte("><#!", word[0]) >= 0:
		e.Word = word[:1] + hidden
	case errors.Is(err, ErrUnknownCommand):
		if near := nearest.Word(word[1:], c.names()); near != "" {
			e.Advice = word[:1] + near
		}
	default:
		if e.Advice = nearest.Word(word, slices.Sorted(maps.Keys(flagWords))); e.Advice == "" {
			e.Word = hidden
		}
	}
	return e
}

// apply applies one word to u, which must not be shared.
func (u *User) apply(c *Catalog, word string) (err error) {
	if set := flagWords[strings.ToLower(word)]; set != nil {
		set(u, c)
		return nil
	}
	if len(word) >= len(domainPrefix) && strings.EqualFold(word[:len(domainPrefix)], domainPrefix) {
		return u.applyDomain(word[len(domainPrefix):])
	}
	if word == "" {
		return ErrSyntax
	}
	switch argument := word[1:]; word[0] {
	case '>', '<', '#', '!':
		return u.applyPassword(word[0], argument)
	case '~', '%':
		return u.applyKey(word)
	case '&':
		if hasSpace(argument) {
			return ErrSyntax
		}
		u.channels, err = u.channels.add(argument, ErrAllChannels)
		return err
	case '+', '-':
		changed, err := u.commands.apply(c, word[0], strings.ToLower(argument))
		if err == nil {
			u.commands = changed
		}
		return err
	case '(':
		return ErrSelector
	}
	return ErrSyntax
}

func (u *User) applyDomain(pattern string) (err error) {
	if pattern == "" || hasSpace(pattern) {
		return ErrSyntax
	}
	u.domains, err = u.domains.add(pattern, ErrAllDomains)
	return err
}

func (u *User) applyKey(word string) error {
	pattern, access, err := parseKeyPattern(word)
	switch {
	case err != nil:
		return err
	case hasSpace(pattern):
		return ErrSyntax
	}
	u.keys, err = u.keys.add(pattern, access)
	return err
}

// applyPassword adds (> and #) or removes (< and !) a password, which is given itself (> and <) or as a digest.
func (u *User) applyPassword(sign byte, text string) (err error) {
	d := digestOf(text)
	if sign == '#' || sign == '!' {
		if d, err = parseDigest(text); err != nil {
			return err
		}
	}
	if sign == '>' || sign == '#' {
		u.login = u.login.add(d)
		return nil
	}
	u.login, err = u.login.remove(d)
	return err
}
