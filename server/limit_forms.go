package server

import (
	"strings"

	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/leaky"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// limitForm describes one form of a limit: a key, one or two integers, a period, and an optional mode. Its word,
// prefixed with "CL.", is the name of a command. Without the prefix, the word introduces a limit in CL.ALL.
type limitForm struct {
	word          string // lower case
	summary       string
	cost          string      // complexity; "" is O(1)
	args          string      // the key, the integers and the period, in this order, in the notation of syntax.go
	modes         []limitMode // the first is the default
	minFirst      int64       // minimum of the first integer; the minimum of the second integer and of the period is 1
	conditionText string      // condition that the integers and the period together must meet, for error texts

	// Set by newLimitForms.
	names []string // names of the arguments in args
	size  int      // number of the arguments in args
}

// limitMode is one of the algorithms of a limit form.
type limitMode struct {
	word    string // lower case; "" if the form has only one mode
	counted bool   // an integer follows the word
	kind    limiter.Kind
	compile func(p limitParams) (limiter.Limit, error)
}

// limitParams holds the parsed arguments that follow the key of a limit.
type limitParams struct {
	first, second int64 // the integers
	period        limiter.Period
	parts         int64 // integer after a counted mode
	logEntries    int64 // value of the option window-log-max-entries
}

// limitForms lists all limit forms. The limiter commands are derived from them.
var limitForms = newLimitForms([]limitForm{
	{
		word: "throttle", args: "key max_burst:integer count:integer period",
		minFirst: 0, conditionText: "(max_burst + 1) * period / count" + within292,
		summary: "Checks a limit with GCRA, and charges the request if it is admitted",
		modes: []limitMode{{kind: limiter.Throttle, compile: func(p limitParams) (limiter.Limit, error) {
			return gcra.NewLimit(p.first, p.second, p.period)
		}}},
	},
	{
		word: "window", args: "key limit:integer period",
		minFirst: 1, conditionText: "period must be at most 4611686018 seconds (146 years)",
		summary: "Checks a limit on the requests in a window of time, and charges the request if it is admitted",
		cost:    "O(1), with BUCKETS O(N) in the number of parts, with LOG at most O(N) in the number of entries",
		modes: []limitMode{
			{word: "sliding", kind: limiter.SlidingWindow, compile: wholeWindow},
			{word: "fixed", kind: limiter.FixedWindow, compile: wholeWindow},
			{word: "log", kind: limiter.WindowLog, compile: func(p limitParams) (limiter.Limit, error) {
				return windowlog.NewLimit(p.first, p.period, p.logEntries)
			}},
			{word: "buckets", counted: true, kind: limiter.WindowBuckets, compile: func(p limitParams) (limiter.Limit, error) {
				return window.NewLimit(p.first, p.period, p.parts)
			}},
		},
	},
	{
		word: "bucket", args: "key capacity:integer refill_amount:integer refill_interval",
		minFirst: 1, conditionText: "refill_interval * ceil(capacity / refill_amount)" + within292,
		summary: "Checks a token bucket that is refilled at intervals, and takes tokens if the request is admitted",
		modes: []limitMode{{kind: limiter.TokenBucket, compile: func(p limitParams) (limiter.Limit, error) {
			return tokenbucket.NewLimit(p.first, p.second, p.period)
		}}},
	},
	{
		word: "leaky", args: "key capacity:integer count:integer period",
		minFirst: 1, conditionText: "capacity * period / count" + within292,
		summary: "Checks a leaky bucket, which drains at a steady rate. An admitted request is added to the bucket, and the reply has the time by which the caller must delay it",
		modes: []limitMode{{kind: limiter.LeakyBucket, compile: func(p limitParams) (limiter.Limit, error) {
			return leaky.NewLimit(p.first, p.second, p.period)
		}}},
	},
})

// within292 is the end of the error text for a time that must fit in an int64 as nanoseconds.
const within292 = " must be at most 9223372036 seconds (292 years)"

func wholeWindow(p limitParams) (limiter.Limit, error) { return window.NewLimit(p.first, p.period, 1) }

func newLimitForms(forms []limitForm) []limitForm {
	for i := range forms {
		for _, arg := range strings.Fields(forms[i].args) {
			name, _, _ := strings.Cut(arg, ":")
			forms[i].names = append(forms[i].names, name)
		}
		forms[i].size = len(forms[i].names)
	}
	return forms
}

// limitFormOf returns the form with the given word, or nil.
func limitFormOf(word []byte) *limitForm {
	for i := range limitForms {
		if spells(word, limitForms[i].word) {
			return &limitForms[i]
		}
	}
	return nil
}

// limitCommands returns the rows of the command table for the limiter commands: one for each limit form, and one for
// CL.ALL.
func limitCommands() (rows []command) {
	const flags = write | denyOOM | fast
	for i := range limitForms {
		f := &limitForms[i]
		rows = append(rows, command{
			name: "cl." + f.word, arity: -(1 + f.size), flags: flags, keys: oneKey.withAccess("RW access update"),
			group: groupLimiter, since: "0.1.0", parse: f.parse, reply: replyLimit,
			summary: f.summary, cost: f.cost, args: f.args + " [quantity:integer] " + f.modeSyntax() + " [MS]",
		})
	}
	return append(rows, command{
		name: "cl.all", arity: -6, flags: flags | movableKeys, keys: specKey.withAccess("RW access update"),
		group: groupLimiter, since: "0.1.0", parse: parseAll, explain: explainAll, reply: replyAll,
		cost: "O(N) in the number of limits", summary: "Charges several limits atomically: all or none",
		args: "quantity:integer {" + strings.Join(limitSpecs(), " | ") + "}... [MS]",
	})
}

// limitSpecs returns the limits of CL.ALL in the notation of syntax.go.
func limitSpecs() []string {
	specs := make([]string, len(limitForms))
	for i := range limitForms {
		f := &limitForms[i]
		specs[i] = strings.ToUpper(f.word) + " " + f.args + " " + f.modeSyntax()
	}
	return specs
}

// modeSyntax returns the modes in the notation of syntax.go.
func (f *limitForm) modeSyntax() string {
	if len(f.modes) == 1 {
		return ""
	}
	words := make([]string, len(f.modes))
	for i, m := range f.modes {
		words[i] = strings.ToUpper(m.word)
		if m.counted {
			words[i] += " parts:integer"
		}
	}
	return "[" + strings.Join(words, " | ") + "]"
}
