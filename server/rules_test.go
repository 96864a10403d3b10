package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/ruleset"
)

// newRules returns a store whose active rules are a text.
func newRules(t testing.TB, text string) *ruleset.Store {
	t.Helper()
	store := ruleset.NewStore()
	setRules(t, store, text)
	return store
}

// setRules makes a text the active rules of a store.
func setRules(t testing.TB, store *ruleset.Store, text string) {
	t.Helper()
	if _, err := ruleset.NewLocal(store, time.Now).Propose(t.Context(), ruleset.Proposal{Name: "test", Text: text}); err != nil {
		t.Fatalf("set the rules: %v", err)
	}
}

// ruleServer is a server with rules, whose clocks the test advances.
type ruleServer struct {
	*testServer
	clock *testClock
}

// startRules starts a server with the rules of a domain d. The text has the keys after "domain".
func startRules(t testing.TB, text string) *ruleServer {
	t.Helper()
	clock := newTestClock()
	s := setup{engine: buckets.New(buckets.Config{Clock: clock.read, Shards: 8}), rules: newRules(t, "version: 1\ndomain: d\n"+text)}
	s.tune = func(s *Server) {
		s.rules.clock = func() time.Time { return time.Unix(0, int64(clock.read())).UTC() }
		s.rules.random = func() uint64 { return 1 << 63 }
	}
	return &ruleServer{s.start(t), clock}
}

// brief renders a reply in one line: strings without quotes, arrays in brackets, sets in ~(), and maps in braces.
func (v value) brief() string {
	words := make([]string, len(v.list))
	for i, element := range v.list {
		words[i] = element.brief()
	}
	switch v.kind {
	case '*':
		return "[" + strings.Join(words, " ") + "]"
	case '~':
		return "~(" + strings.Join(words, " ") + ")"
	case '%':
		for i := 0; i+1 < len(words); i += 2 {
			words[i/2] = words[i] + ":" + words[i+1]
		}
		return "{" + strings.Join(words[:len(words)/2], " ") + "}"
	case '-':
		return "-" + v.text
	}
	if v.text == "" {
		return "''"
	}
	return v.text
}

// checks sends the command in line, and fails the test unless the reply is want in the form of brief.
func (p *peer) checks(line, want string) {
	p.t.Helper()
	if got := p.ask(words(line)...).brief(); got != want {
		p.t.Errorf("%s:\n got %s\nwant %s", line, got, want)
	}
}

// unlimitedFive is the beginning of the reply for a request without a limit.
var unlimitedFive = fmt.Sprintf("0 %d %d -1 0", int64(1<<63-1), int64(1<<63-1))
