package server

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/throttledhq/throttled/rules"
)

// parseReport is the parseFunc of CL.REPORT domain OUTCOME name=value [COST units] [MS] [--] [name value ...]. Unlike the
// requests of CL.CHECK, each request is decided on its own: a full counter does not prevent others from being charged.
func parseReport(p *parsing, args [][]byte) error {
	o := newCheckOptions()
	pairs, err := o.read(args[2:], optionsReport)
	if err != nil {
		return err
	}
	status, err := parseOutcome(o.outcome)
	if err != nil {
		return err
	}
	if err := p.rule.match(args[1], pairs); err != nil {
		return err
	}
	p.unit = o.unit
	return p.addReports(&o, status)
}

// parseOutcome parses status=CODE.
func parseOutcome(arg []byte) (status int, err error) {
	if arg == nil {
		return 0, errNoOutcome
	}
	name, text, found := bytes.Cut(arg, []byte("="))
	if !found || !spells(name, "status") {
		return 0, errInvalid("OUTCOME", arg, "status=CODE, such as status=401")
	}
	status, err = strconv.Atoi(string(text))
	if err != nil || len(text) != 3 || status < 100 || status > 599 {
		return 0, errInvalid("status of OUTCOME", text, "an integer from 100 to 599")
	}
	return status, nil
}

// addReports appends the requests for the limits in p.rule.matches that are charged by an outcome. They are not linked.
func (p *parsing) addReports(o *checkOptions, status int) error {
	list := p.rule.matches.List
	n := len(p.reqs)
	for i := range list {
		if isCharged(list[i].Limit, status) {
			n += o.requestsOf(&list[i])
		} else if !isShadow(list[i].Limit) {
			p.uncharged = true
		}
	}
	if n > batchSize {
		return errBatchFull
	}
	limits, live := len(p.rule.limits), 0
	for _, shadow := range [...]bool{false, true} {
		live = len(p.reqs)
		for i := range list {
			if isCharged(list[i].Limit, status) && list[i].Limit.Shadow == shadow {
				p.addMatch(&list[i], o)
			}
		}
	}
	p.finishCall(limits, live)
	p.fills, p.rule.followUp = true, true
	return nil
}

// isCharged reports whether a limit, which may be nil, is charged by an outcome.
func isCharged(l *rules.Limit, status int) bool { return l != nil && slices.Contains(l.Charge, status) }
