package server

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// TestLimitForms checks the properties of the table of limit forms on which the parser relies.
func TestLimitForms(t *testing.T) {
	word := regexp.MustCompile(`^[a-z]+$`)
	args := regexp.MustCompile(`^key( [a-z_]+:integer){1,2} [a-z_]+$`)
	kinds, words, least := map[limiter.Kind]int{}, map[string]int{"ms": 1}, math.MaxInt
	for i := range limitForms {
		f := &limitForms[i]
		if !word.MatchString(f.word) || !args.MatchString(f.args) || f.size != strings.Count(f.args, " ")+1 {
			t.Errorf("%s: the word or the args %q are malformed, or the size %d is wrong", f.word, f.args, f.size)
		}
		if got := strings.ReplaceAll(f.args, ":integer", ""); got != strings.Join(f.names, " ") || !strings.Contains(f.conditionText, f.names[f.size-1]) || f.minFirst < 0 || f.minFirst > 1 {
			t.Errorf("%s: the names %q differ from args, the minimum %d is not 0 or 1, or the condition %q does not name the period", f.word, f.names, f.minFirst, f.conditionText)
		}
		if limitFormOf([]byte(strings.ToUpper(f.word))) != f {
			t.Errorf("limitFormOf does not find %s", f.word)
		}
		words[f.word]++
		least = min(least, 1+f.size)
		for _, m := range f.modes {
			if (m.word != "") != (len(f.modes) > 1) || m.word != "" && !word.MatchString(m.word) {
				t.Errorf("%s: the word of a mode is %q, want lower case letters if there are several modes, and otherwise an empty word", f.word, m.word)
			}
			kinds[m.kind]++
			words[m.word]++
		}
	}
	delete(words, "")
	for w, n := range words {
		if n > 1 {
			t.Errorf("the word %s is used more than once", w)
		}
	}
	for k := limiter.Kind(1); k.Known(); k++ {
		want := 1
		if k.OfRules() {
			want = 0
		}
		if kinds[k] != want {
			t.Errorf("%d modes have the kind %s %s, want %d", kinds[k], k, k.Encoding(), want)
		}
	}
	if least != leastSpec {
		t.Errorf("the shortest limit has %d words, want %d", least, leastSpec)
	}
	if limitFormOf([]byte("nonsense")) != nil || limitFormOf(nil) != nil {
		t.Error("limitFormOf finds a form for an unknown or empty word")
	}
}

// TestLimitCommands checks that there is a command for each limit form, and checks the documented syntax of each
// limiter command.
func TestLimitCommands(t *testing.T) {
	r := newRegistry(commandTable(), onRedis)
	f := func(name string, arity int, want string) {
		t.Helper()
		cmd := r.named(name)
		if cmd == nil || cmd.arity != arity {
			t.Fatalf("the command %s is missing, or its arity is wrong: %+v", name, cmd)
		}
		if got := joinArguments(cmd.syntax, " "); got != want {
			t.Errorf("%s: the syntax is\n%s, want\n%s", name, got, want)
		}
	}
	f("cl.throttle", -5, "<key> <max_burst> <count> <period> [<quantity>] [MS]")
	f("cl.window", -4, "<key> <limit> <period> [<quantity>] [SLIDING|FIXED|LOG|BUCKETS <parts>] [MS]")
	f("cl.bucket", -5, "<key> <capacity> <refill_amount> <refill_interval> [<quantity>] [MS]")
	f("cl.leaky", -5, "<key> <capacity> <count> <period> [<quantity>] [MS]")
	limit := "THROTTLE <key> <max_burst> <count> <period>" +
		"|WINDOW <key> <limit> <period> [SLIDING|FIXED|LOG|BUCKETS <parts>]" +
		"|BUCKET <key> <capacity> <refill_amount> <refill_interval>" +
		"|LEAKY <key> <capacity> <count> <period>"
	f("cl.all", -6, "<quantity> "+limit+" ["+limit+" ...] [MS]")
	if len(limitCommands()) != len(limitForms)+1 {
		t.Errorf("%d commands for %d forms, want one for each form and one for CL.ALL", len(limitCommands()), len(limitForms))
	}
}
