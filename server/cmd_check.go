package server

import (
	"time"

	"github.com/throttledhq/throttled/resp"
)

// ruleCommands returns the rows of the command table for the commands that use the rules.
func ruleCommands() []command {
	const flags = write | denyOOM | fast
	return []command{
		{name: "cl.check", arity: -2, flags: flags, group: groupLimiter, since: "0.1.0", rules: true, parse: parseCheck, reply: replyCheck,
			cost:    "O(N) in the number of attributes and of the limits that apply",
			summary: "Checks all limits of the rules that apply to a request, and charges the request if it is admitted",
			args:    "domain [COST units:integer] [PEEK] [DRYRUN] [MS] [--] [name value]..."},
		{name: "cl.report", arity: -4, flags: flags, group: groupLimiter, since: "0.1.0", rules: true, report: true, parse: parseReport, reply: replyCheck,
			cost:    "O(N) in the number of attributes and of the limits that apply",
			summary: "Charges a request by its outcome to the limits of the rules that are charged by outcome",
			args:    "domain OUTCOME outcome [COST units:integer] [MS] [--] [name value]..."},
	}
}

// checkOptions holds the options of CL.CHECK and CL.REPORT. They are between the domain and the attributes. If an attribute
// has the name of an option, the word "--" must precede the attributes.
type checkOptions struct {
	cost    int64 // units of the request; the cost of a limit multiplies it
	peek    bool
	dryRun  bool
	unit    time.Duration
	outcome []byte // argument of OUTCOME; nil if the option is absent

	given uint8 // bit set of the options that were given
}

// checkOption identifies an option of CL.CHECK or CL.REPORT.
type checkOption uint8

const (
	optionCost checkOption = iota
	optionMS
	optionPeek
	optionDryRun
	optionOutcome
)

var checkWords = [...]string{optionCost: "cost", optionMS: "ms", optionPeek: "peek", optionDryRun: "dryrun", optionOutcome: "outcome"}

// Bit sets of the options of each command.
const (
	bothOptions   = 1<<optionCost | 1<<optionMS
	optionsCheck  = bothOptions | 1<<optionPeek | 1<<optionDryRun
	optionsReport = bothOptions | 1<<optionOutcome
)

// parseCheck is the parseFunc of CL.CHECK domain [COST units] [PEEK] [DRYRUN] [MS] [--] [name value ...].
func parseCheck(p *parsing, args [][]byte) error {
	o := newCheckOptions()
	pairs, err := o.read(args[2:], optionsCheck)
	if err != nil {
		return err
	}
	if err := p.rule.match(args[1], pairs); err != nil {
		return err
	}
	if o.peek {
		o.cost = 0
	}
	p.unit = o.unit
	return p.addMatches(&o)
}

// isCharge reports whether a request can charge units. Only such requests are in the statistics of the rules, and only
// their refusals are counted for bans.
func (o *checkOptions) isCharge() bool { return o.cost > 0 && !o.peek && !o.dryRun }

// isRefund reports whether a request returns units. Neither a ban nor the amount "none" refuses it, since the other limits
// of the request would then lose their refunds.
func (o *checkOptions) isRefund() bool { return o.cost < 0 && !o.peek }

// restores reports whether a request can restore units.
func (o *checkOptions) restores() bool { return o.isRefund() && !o.dryRun }

func newCheckOptions() checkOptions { return checkOptions{cost: 1, unit: time.Second} }

// read parses the options at the beginning of args, and returns the arguments after them. allowed is the bit set of the
// options of the command.
func (o *checkOptions) read(args [][]byte, allowed uint8) (pairs [][]byte, err error) {
	for len(args) > 0 {
		if string(args[0]) == "--" {
			return args[1:], nil
		}
		option, ok := checkOptionOf(args[0], allowed)
		if !ok {
			return args, checkNames(args, allowed)
		}
		if o.given&(1<<option) != 0 {
			return nil, errOptionTwice(args[0])
		}
		o.given |= 1 << option
		if args, err = o.set(option, args[1:]); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// checkNames returns an error if an attribute has the name of an option, unless "--" precedes it: a client that writes
// COST 2 after the attributes would otherwise charge one unit. If the number of arguments is odd, the first one can also
// be an option of the other command.
func checkNames(pairs [][]byte, allowed uint8) error {
	if len(pairs)%2 != 0 {
		if option, ok := checkOptionOf(pairs[0], allowed^(optionsCheck|optionsReport)); ok {
			return errOtherOption(option)
		}
	}
	for i := 2; i < len(pairs); i += 2 {
		if option, ok := checkOptionOf(pairs[i], allowed); ok {
			return errLateOption(option)
		}
	}
	return nil
}

// checkOptionOf returns the option that an argument names, if it is allowed.
func checkOptionOf(arg []byte, allowed uint8) (option checkOption, ok bool) {
	for i := range checkWords {
		if allowed&(1<<i) != 0 && spells(arg, checkWords[i]) {
			return checkOption(i), true
		}
	}
	return 0, false
}

// set sets an option to the value at the beginning of args, and returns the arguments after the value.
func (o *checkOptions) set(option checkOption, args [][]byte) ([][]byte, error) {
	switch option {
	case optionMS:
		o.unit = time.Millisecond
		return args, nil
	case optionPeek:
		o.peek = true
		return args, nil
	case optionDryRun:
		o.dryRun = true
		return args, nil
	}
	if len(args) == 0 {
		return nil, errOptionValue(option)
	}
	if option == optionOutcome {
		o.outcome = args[0]
		return args[1:], nil
	}
	var ok bool
	if o.cost, ok = resp.ParseSigned(args[0]); !ok {
		return nil, errInvalid("COST", args[0], "a 64-bit integer")
	}
	return args[1:], nil
}
