package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// The limits of a generated set. The counts of left and right encode the content of the set: they must agree in each
// reply. The limit left restores no unit during a run, so its units in use order the charges. The limit steady is the
// same in each set and applies to hot requests only.
const (
	rulesDomain = "chaos"
	leftLimit   = "left"
	rightLimit  = "right"
	steadyLimit = "steady"

	leftBase  = 1_000_000
	rightBase = 2_000_000

	steadyBurst = 10
	steadyCount = 5 // per second
)

// rulesUsers is the number of users, which have limits of their own. The charges of the first trackedUsers are recorded.
const (
	rulesUsers   = 32
	trackedUsers = 4
)

const (
	bigEvery = 20      // one set in bigEvery is so large that it has several chunks in the log
	bigBytes = 400_000 // of its comment, which cannot be compressed by more than a quarter
)

// heavyLimits is the number of further limits of a heavy set. A node needs half a second to compile it, or more under load,
// which is longer than most elections take.
const heavyLimits = 20_000

// rulesText returns a set with a content, which must be at least 1.
func rulesText(content int64, heavy bool) string {
	text := fmt.Sprintf(`version: 1
domain: %s
limits:
  %s: {when: {path: /*}, per: [user], allow: %d per 36500 days, algorithm: fixed}
  %s: {when: {class: hot}, per: [user], allow: %d/s burst %d}
  %s: {per: [user], allow: %d per hour}
`, rulesDomain, leftLimit, leftBase+content, steadyLimit, steadyCount, steadyBurst, rightLimit, rightBase+content)
	switch {
	case heavy:
		text += heavyDomain()
	case content%bigEvery == 0:
		text += comment(content)
	}
	return text
}

// heavyDomain returns a domain that no request uses.
func heavyDomain() string {
	var b strings.Builder
	b.WriteString("---\nversion: 1\ndomain: heavy\nlimits:\n")
	for i := range heavyLimits {
		fmt.Fprintf(&b, "  l%d: {when: {path: /s%d/*}, per: [user], allow: 100 per minute}\n", i, i)
	}
	return b.String()
}

// comment returns a large comment of random characters.
func comment(seed int64) string {
	random := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed)))
	line := make([]byte, 54)
	var b strings.Builder
	for b.Len() < bigBytes {
		_, _ = random.Read(line) // never fails
		b.WriteString("# " + base64.StdEncoding.EncodeToString(line) + "\n")
	}
	return b.String()
}

// hashOf returns the hash of a set, as CL.RULES HISTORY shows it.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ruleKeys returns the limits left and steady of a user. The name of a key is for messages only. The units of left that
// remain are counted from leftUnits, because the limit changes.
func ruleKeys(user int) (left, steady *history.Key) {
	return &history.Key{Name: fmt.Sprint(leftLimit, ":", user), MaxBurst: leftUnits - 1, Count: 1, Period: slowPeriod},
		&history.Key{Name: fmt.Sprint(steadyLimit, ":", user), MaxBurst: steadyBurst - 1, Count: steadyCount, Period: time.Second}
}

// leftUnits is the limit to which the remaining units of left are converted.
const leftUnits = slowBurst + 1

// shownLimit is a limit in a reply to CL.CHECK.
type shownLimit struct {
	limited                                  bool
	limit, remaining, retryAfter, resetAfter int64
}

// checked is a reply to CL.CHECK.
type checked struct {
	limited bool
	version uint64
	limits  map[string]shownLimit
}

var errChecked = errors.New("invalid reply to CL.CHECK")

// The positions of elements in the reply to CL.CHECK, after the five integers of the deciding limit, and in the reply of
// a limit.
const (
	flagsAt   = 6
	listAt    = 7
	versionAt = 8

	fiveAt = 2
)

// isFailed reports whether a reply to CL.CHECK has the flag "failopen", "failclosed" or "local": no leader has decided the
// request, or it is unknown whether one has.
func isFailed(r *reply) bool {
	if len(r.list) <= flagsAt {
		return false
	}
	for _, flag := range r.list[flagsAt].list {
		if flag.text == "failopen" || flag.text == "failclosed" || flag.text == "local" {
			return true
		}
	}
	return false
}

// readChecked reads the reply to CL.CHECK.
func readChecked(r *reply) (c checked, err error) {
	if r.kind != '*' || len(r.list) != versionAt+1 || r.list[versionAt].kind != ':' || len(r.integers()) != 5 {
		return c, fmt.Errorf("%w: %+v", errChecked, *r)
	}
	c = checked{limited: r.list[0].n == 1, version: uint64(r.list[versionAt].n), limits: map[string]shownLimit{}}
	for _, l := range r.list[listAt].list {
		if len(l.list) < fiveAt+5 {
			return c, fmt.Errorf("%w: limit %+v", errChecked, l)
		}
		n := l.list[fiveAt : fiveAt+5]
		c.limits[l.list[0].text] = shownLimit{n[0].n == 1, n[1].n, n[2].n, n[3].n, n[4].n}
	}
	return c, nil
}

// contents returns the contents that the limits left and right encode. The content of a limit that is missing is
// history.NoContent.
func (c *checked) contents() [2]int64 {
	contents := [2]int64{history.NoContent, history.NoContent}
	if l, found := c.limits[leftLimit]; found {
		contents[0] = l.limit - leftBase
	}
	if l, found := c.limits[rightLimit]; found {
		contents[1] = l.limit - rightBase
	}
	return contents
}

// readVersions reads the reply to CL.RULES HISTORY. The contents are those of the sets with the hashes in the reply.
func readVersions(r *reply, contentOf func(hash string) int64) (list []history.Version, err error) {
	for _, entry := range r.list {
		v := history.Version{Content: history.NoContent}
		for i := 0; i+1 < len(entry.list); i += 2 {
			switch value := entry.list[i+1]; entry.list[i].text {
			case "version":
				v.Number = uint64(value.n)
			case "hash":
				v.Content = contentOf(value.text)
			}
		}
		if v.Number == 0 {
			return nil, fmt.Errorf("invalid reply to CL.RULES HISTORY: %+v", entry)
		}
		list = append(list, v)
	}
	return list, nil
}
