package acl

import (
	"slices"
	"strings"

	"github.com/throttledhq/throttled/internal/glob"
)

// MaxPatterns is the maximum number of patterns of keys of a user, and of channels and of domains. It limits the time of a check,
// which compares a key with each pattern.
const MaxPatterns = 1000

// Access is the way in which a command accesses a key.
type Access uint8

// A command with neither access, such as EXISTS, needs either permission.
const (
	Read Access = 1 << iota
	Write
)

// keyPatterns are the keys that a user may access.
type keyPatterns struct {
	all  bool
	list []keyPattern
}

type keyPattern struct {
	pattern string
	access  Access
}

func (p keyPattern) String() string {
	switch p.access {
	case Read:
		return "%R~" + p.pattern
	case Write:
		return "%W~" + p.pattern
	}
	return "~" + p.pattern
}

func (k *keyPatterns) permits(key []byte, access Access) bool {
	if k.all {
		return true
	}
	for i := range k.list {
		if p := &k.list[i]; p.access&access == access && glob.Match(p.pattern, key) {
			return true
		}
	}
	return false
}

// add returns k with one more pattern. It changes the list of k.
func (k keyPatterns) add(pattern string, access Access) (keyPatterns, error) {
	switch {
	case pattern == "*" && access == Read|Write:
		return keyPatterns{all: true}, nil
	case k.all:
		return k, ErrAllKeys
	}
	list := k.list
	for i := range list {
		if list[i].pattern == pattern {
			list[i].access |= access
			if pattern == "*" && list[i].access == Read|Write {
				return keyPatterns{all: true}, nil // as the pattern that String returns, so that the rules can be parsed again
			}
			return keyPatterns{list: list}, nil
		}
	}
	if len(list) == MaxPatterns {
		return k, ErrManyPatterns
	}
	return keyPatterns{list: append(list, keyPattern{pattern, access})}, nil
}

func (k *keyPatterns) String() string {
	if k.all {
		return "~*"
	}
	words := make([]string, len(k.list))
	for i, p := range k.list {
		words[i] = p.String()
	}
	return strings.Join(words, " ")
}

// parseKeyPattern parses the word of a key pattern: ~p, %R~p, %W~p or %RW~p.
func parseKeyPattern(word string) (pattern string, access Access, err error) {
	if pattern, plain := strings.CutPrefix(word, "~"); plain {
		return pattern, Read | Write, nil
	}
	flags, pattern, found := strings.Cut(word[1:], "~")
	for _, c := range strings.ToUpper(flags) {
		flag := map[rune]Access{'R': Read, 'W': Write}[c]
		found = found && flag != 0 && access&flag == 0 // each flag once
		access |= flag
	}
	if !found || access == 0 {
		return "", 0, ErrSyntax
	}
	return pattern, access, nil
}

// patterns are the channels or domains that a user may use.
type patterns struct {
	all  bool
	list []string
}

func (p *patterns) permits(name []byte) bool {
	if p.all {
		return true
	}
	for _, pattern := range p.list {
		if glob.Match(pattern, name) {
			return true
		}
	}
	return false
}

// lists reports whether a pattern is one of the patterns.
func (p *patterns) lists(pattern []byte) bool {
	return p.all || slices.Contains(p.list, string(pattern))
}

// add returns p with one more pattern. It changes the list of p. The error is full if all names are already permitted.
func (p patterns) add(pattern string, full error) (patterns, error) {
	switch {
	case pattern == "*":
		return patterns{all: true}, nil
	case p.all:
		return p, full
	case slices.Contains(p.list, pattern):
		return p, nil
	case len(p.list) == MaxPatterns:
		return p, ErrManyPatterns
	}
	return patterns{list: append(p.list, pattern)}, nil
}

// words returns the words that produce p, each with a prefix.
func (p *patterns) words(prefix string) []string {
	if p.all {
		return []string{prefix + "*"}
	}
	words := make([]string, len(p.list))
	for i, pattern := range p.list {
		words[i] = prefix + pattern
	}
	return words
}
