package server

import (
	"strings"

	"github.com/throttledhq/throttled/internal/nearest"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/ruleset"
)

// The errors of the commands that use the rules.
const (
	errManyMatches replyError = "ERR more than 32 amounts apply to the request, with one more for each ban: use fewer limits, or narrower conditions"
	errNoOutcome   replyError = "ERR CL.REPORT needs OUTCOME after the domain, such as OUTCOME status=401"
)

var errNoRules = replyError("ERR " + ruleset.ErrNoRules.Error())

// The errors of CL.RULES while the cluster has no leader. The errors of other commands state whether units were charged.
const (
	errRulesNotLeading  replyError = "LOADING the cluster has no leader at the moment: nothing was changed, try again"
	errRulesClusterDown replyError = "CLUSTERDOWN The cluster is down: it has no leader at the moment, nothing was changed, try again"
	errRulesBusy        replyError = "BUSY too many clients are waiting for the leader: nothing was changed, try again later"
	errRulesUncertain   replyError = "UNCERTAIN leadership was lost before the change was confirmed: it may have been applied, see CL.RULES HISTORY"

	errReadNotLeading  replyError = "LOADING the cluster has no leader at the moment: try again"
	errReadClusterDown replyError = "CLUSTERDOWN The cluster is down: it has no leader at the moment, try again"
	errReadBusy        replyError = "BUSY too many clients are waiting for the leader: try again later"
	errReadUncertain   replyError = "UNCERTAIN leadership was lost before the reply: try again"
)

// rulesErrors are the errors of commands that change the rules, and of those that read them.
var rulesErrors = map[replyError]struct{ change, read replyError }{
	errNotLeading:  {errRulesNotLeading, errReadNotLeading},
	errClusterDown: {errRulesClusterDown, errReadClusterDown},
	errBusy:        {errRulesBusy, errReadBusy},
	errUncertain:   {errRulesUncertain, errReadUncertain},
}

// errMembersUncertain is the error of a change of the cluster that was forwarded to a leader which did not reply.
const errMembersUncertain replyError = "UNCERTAIN leadership was lost before the change was confirmed: it may have been made, see CL.CLUSTER NODES and CL.CLUSTER STATUS"

// errorOf returns the error reply of a command. It differs from the given one only for CL.RULES and CL.CLUSTER.
func (cmd *command) errorOf(reply replyError) replyError {
	switch {
	case cmd != nil && reply == errUncertain && strings.HasPrefix(cmd.name, "cl.cluster|"):
		return errMembersUncertain
	case cmd == nil || !strings.HasPrefix(cmd.name, "cl.rules|"):
		return reply
	}
	switch replies, known := rulesErrors[reply]; {
	case !known:
		return reply
	case cmd.changesRules():
		return replies.change
	default:
		return replies.read
	}
}

// errDomain returns the error for a domain that the rules do not have.
func errDomain(name []byte, domains []string) replyError {
	text := "ERR unknown domain " + quote(name) + ": "
	if near := nearest.Word(string(name), domains); near != "" {
		return replyError(text + "did you mean " + near + "?")
	}
	const most = 8 // domains that the error lists
	shown := strings.Join(domains[:min(len(domains), most)], ", ")
	if len(domains) > most {
		shown += " and others"
	}
	return replyError(text + "the rules have " + shown)
}

// errRulesOption returns the error for an unknown option of a command that changes the rules.
func errRulesOption(word []byte) replyError {
	return replyError("ERR unknown option " + quote(word) + ": use BASE version or AUTHOR name")
}

// errNoValue returns the error for an odd number of arguments after the options. name is the last argument.
func errNoValue(name []byte) replyError {
	text := "ERR attribute " + quote(name) + " has no value: attributes are pairs of a name and a value"
	if _, ok := checkOptionOf(name, optionsCheck|optionsReport); ok {
		text += "; options must follow the domain"
	}
	return replyError(text)
}

func errOptionTwice(word []byte) replyError {
	return replyError("ERR option " + quote(word) + " is given twice: write -- before an attribute of this name")
}

// errOtherOption returns the error for an option that only the other one of CL.CHECK and CL.REPORT has.
func errOtherOption(option checkOption) replyError {
	command := "CL.CHECK"
	if optionsReport&(1<<option) != 0 {
		command = "CL.REPORT"
	}
	return replyError("ERR " + strings.ToUpper(checkWords[option]) + " is an option of " + command + " only")
}

// errLateOption returns the error for an option that follows an attribute.
func errLateOption(option checkOption) replyError {
	return replyError("ERR option " + strings.ToUpper(checkWords[option]) +
		" must precede the attributes: write -- before the attributes if one of them has this name")
}

func errOptionValue(option checkOption) replyError {
	return replyError("ERR option " + strings.ToUpper(checkWords[option]) + " needs a value")
}

// decisionError returns the error of a call if some of its requests could not be decided. The parameter at is the index of
// the first such request.
func (c *call) decisionError(reqs []limiter.Request, out []limiter.Decision, at int) error {
	at = cause(out, at)
	holder, used := wrongKind(out[at].Err)
	if c.limits == nil || !used {
		return callError(reqs, out, at)
	}
	return errRuleKeyInUse(c.limitOf(c.from+at), reqs[at].Key, holder)
}

// limitOf returns the name of the limit to which a request of the call belongs.
func (c *call) limitOf(request int) string {
	for i := range c.limits {
		if a := &c.limits[i]; int(a.request) == request || int(a.ban) == request {
			return a.name()
		}
	}
	return ""
}

// errRuleKeyInUse returns the error for a key of a limit that holds the state of a different algorithm. The keys of rules
// name the algorithm, so another command has created the key.
func errRuleKeyInUse(limit string, key []byte, holder limiter.Kind) replyError {
	return replyError("WRONGTYPE limit " + quote([]byte(limit)) + ": key " + quote(key) + " is in use by " + commandOf(holder) +
		": DEL this key, and do not use keys that begin with 'rule|' in other commands")
}
