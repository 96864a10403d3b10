package metrics

import (
	"maps"
	"slices"

	"github.com/throttledhq/throttled/ruleset/counts"
	"github.com/throttledhq/throttled/server/statistics"
)

// commandRows are the metrics of commands and their decisions.
var commandRows = []row{
	{"throttled_commands_total", counter, []string{"command", "outcome"}, "Commands: done, failed (error reply), or rejected (before running).",
		func(s *snapshot, out *values) {
			for i := range s.server.Commands {
				c := &s.server.Commands[i]
				out.count(max(c.Calls-c.Failed, 0), c.Name, "done")
				out.count(c.Failed, c.Name, "failed")
				out.count(c.Rejected, c.Name, "rejected")
			}
		}},
	{"throttled_command_seconds", distribution, []string{"command"}, "Time of commands, including the wait for the commit and for the leader. Commands that are decided together count as the mean of their time.",
		func(s *snapshot, out *values) {
			for i := range s.server.Commands {
				if c := &s.server.Commands[i]; c.Calls > 0 {
					out.durations(&c.Times, c.Name)
				}
			}
		}},
	{"throttled_error_replies_total", counter, []string{"code"}, "Error replies by code.",
		func(s *snapshot, out *values) {
			for _, code := range slices.Sorted(maps.Keys(s.server.Errors)) {
				out.count(s.server.Errors[code], code)
			}
		}},
	{"throttled_decisions_total", counter, []string{"domain", "limit", "outcome"}, "Decisions of this node on limits of the rules, without requests that charge nothing; and those of limiter commands such as CL.THROTTLE, with an empty domain and the name of the command. The default of a domain, and requests without a limit, have an empty limit. Limits beyond metrics-max-limits are \"other\".",
		collectDecisions},
	{"throttled_checks_total", counter, []string{"outcome"}, "Decisions of this node on requests of CL.CHECK and CL.REPORT, of whose limits each is in throttled_decisions_total: admitted or refused.",
		func(s *snapshot, out *values) {
			var admitted, refused int64
			for i := range s.server.Commands {
				if c := &s.server.Commands[i]; c.Rules {
					admitted, refused = admitted+c.Admitted, refused+c.Limited
				}
			}
			out.count(admitted, "admitted")
			out.count(refused, "refused")
		}},
	{"throttled_failure_policy_decisions_total", counter, []string{"policy"}, "Requests that no leader has decided: open (admitted by on_failure), closed (refused), or local (decided by the counters of this node).",
		func(s *snapshot, out *values) {
			out.count(s.server.Rules.FailOpen, "open")
			out.count(s.server.Rules.FailClosed, "closed")
			out.count(s.server.Rules.Local, "local")
		}},
	{"throttled_rules_requests_total", counter, []string{"result"}, "Requests of CL.CHECK by result, without requests that charge nothing. A request can have several: unmatched, soft, banned, shadow_refused, shadow_error.",
		func(s *snapshot, out *values) {
			r := &s.server.Rules
			out.count(r.Unmatched, "unmatched")
			out.count(r.Soft, "soft")
			out.count(r.Banned, "banned")
			out.count(r.ShadowLimited, "shadow_refused")
			out.count(r.ShadowErrors, "shadow_error")
		}},
	{"throttled_bans_total", counter, nil, "Bans that have begun.",
		func(s *snapshot, out *values) { out.count(s.server.Rules.Bans) }},
	{"throttled_forwarded_commands_total", counter, []string{"outcome"}, "Commands of clients of this node that were sent to the leader: answered, uncertain (may have been run), or failed (no leader was reached in time).",
		func(s *snapshot, out *values) {
			f := &s.server.Forward
			out.count(f.Answered, "answered")
			out.count(f.Uncertain, "uncertain")
			out.count(f.Failed, "failed")
		}},
	{"throttled_forward_retries_total", counter, nil, "Commands that were sent to a leader again.",
		func(s *snapshot, out *values) { out.count(s.server.Forward.Retries) }},
}

// collectDecisions adds the decisions on limits of the rules, and those of limiter commands that do not use the rules.
func collectDecisions(s *snapshot, out *values) {
	for i := range s.server.Commands {
		if c := &s.server.Commands[i]; c.Limiter && !c.Rules {
			addCommandDecisions(c, out)
		}
	}
	for i := range s.limits {
		r := &s.limits[i]
		for o, n := range r.Counts {
			if n > 0 || isUsual(counts.Outcome(o)) && r.Name != counts.Other {
				out.add(float64(n), r.Domain, r.Limit, counts.Outcome(o).String())
			}
		}
	}
}

func addCommandDecisions(c *statistics.Command, out *values) {
	out.count(c.Admitted, "", c.Name, counts.Admitted.String())
	out.count(c.Limited, "", c.Name, counts.Refused.String())
}

// isUsual reports whether an outcome is exported although it is 0. The rate of other outcomes begins when they first occur.
func isUsual(o counts.Outcome) bool { return o == counts.Admitted || o == counts.Refused }
