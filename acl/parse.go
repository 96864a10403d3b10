package acl

import (
	"errors"
	"fmt"
	"strings"
)

// MaxText is the maximum size of a text of users, in bytes.
const MaxText = 1 << 20

// Errors of Parse, wrapped in a *LineError or alone.
var (
	ErrTooLong   = fmt.Errorf("the users exceed %d bytes: define fewer users or patterns", MaxText)
	ErrEncoding  = errors.New("the users contain a zero byte or begin with a byte order mark: the file is damaged, or must be saved as UTF-8 without such a mark")
	ErrKeyword   = errors.New("a line must begin with the word user and a name: user NAME RULE ...")
	ErrDuplicate = errors.New("the user is defined twice: remove one of the lines")
)

// LineError is the error of a line.
type LineError struct {
	Line int    // number of the line, from 1
	User string // name of the user; "" if the line has none
	Err  error
}

func (e *LineError) Error() string {
	if e.User == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: user %s: %v", e.Line, e.User, e.Err)
}

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Parse parses the format of Redis's ACL files: "user NAME RULE ..." in each line. Empty lines are ignored. The rules of a
// line are applied to a new user. The error is a *LineError for the first wrong line, ErrTooLong, or ErrEncoding. The version
// of the result is 0.
func Parse(text string, c *Catalog) (*Set, error) {
	// Zero bytes, which a file can contain after a power failure, would otherwise be spaces: without its lines, the user "default"
	// needs no password.
	if strings.HasPrefix(text, "\ufeff") || strings.IndexByte(text, 0) >= 0 {
		return nil, ErrEncoding
	}
	set, errs := parse(text, c, false)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return set, nil
}

// ParseStored is like Parse, for a text that another version of the program may have accepted. A user with rules that
// cannot be parsed is disabled and has no permissions; Text returns its line unchanged. The errors of these users are
// returned, to be logged. The set is nil only if the error is ErrTooLong.
func ParseStored(text string, c *Catalog) (*Set, []error) { return parse(text, c, true) }

// Names returns the names in the lines of a text, in their order and without checks. It is for texts that Parse or
// ParseStored accepts, and takes less time.
func Names(text string) (names []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimLeftFunc(line, isSpace)
		keyword, rest := cutWord(line)
		if name, _ := cutWord(rest); keyword == "user" && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// cutWord returns the first word of a line, and the text after the spaces that follow it.
func cutWord(line string) (word, rest string) {
	end := strings.IndexFunc(line, isSpace)
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimLeftFunc(line[end:], isSpace)
}

func parse(text string, c *Catalog, stored bool) (*Set, []error) {
	if len(text) > MaxText {
		return nil, []error{ErrTooLong}
	}
	var errs []error
	users := map[string]*User{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimFunc(line, isSpace)
		if line == "" {
			continue
		}
		u, name, err := parseLine(line, c)
		if u != nil && users[name] != nil {
			u, err = nil, ErrDuplicate
		}
		if err != nil {
			errs = append(errs, &LineError{i + 1, name, err})
			if !stored {
				return nil, errs
			}
		}
		if u != nil {
			users[name] = u
		}
	}
	explicit := users[DefaultName] != nil
	if !explicit {
		users[DefaultName] = newDefault(c)
	}
	return newSet(0, users, explicit), errs
}

// parseLine returns the user that a line defines. If the rules are wrong, the user is disabled. If the name is wrong, the
// user is nil.
func parseLine(line string, c *Catalog) (*User, string, error) {
	words := strings.FieldsFunc(line, isSpace)
	if len(words) < 2 || words[0] != "user" {
		return nil, "", ErrKeyword
	}
	name := words[1]
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	u := NewUser(name, c)
	defined, err := u.Apply(c, words[2:]...)
	if err != nil {
		u.unknown = line
		return u, name, err
	}
	return defined, name, nil
}
