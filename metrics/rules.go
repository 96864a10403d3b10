package metrics

// rulesRows are the metrics of the rules.
var rulesRows = []row{
	{"throttled_lease_outstanding_units", gauge, []string{"domain", "limit"}, "Units that lessees hold or have spent, of leases that this node has granted and that have not ended, by limit of the rules. Keys of other limits have an empty domain and limit. Limits beyond metrics-max-limits are \"other\". Limits without leases are absent.",
		func(s *snapshot, out *values) {
			for _, r := range s.leases {
				out.count(r.Outstanding, r.Domain, r.Limit)
			}
		}},
	{"throttled_lease_stranded_units_total", counter, []string{"domain", "limit"}, "Units of leases that have ended without a return, as above. Lessees have spent or lost them.",
		func(s *snapshot, out *values) {
			for _, r := range s.leases {
				out.count(r.Stranded, r.Domain, r.Limit)
			}
		}},
	{"throttled_rules_version", gauge, nil, "Number of the newest version of the rules; 0: none.",
		withRules(func(s *snapshot, out *values) { out.add(float64(s.newest.Number)) })},
	{"throttled_rules_active_version", gauge, nil, "Number of the version with which this node decides.",
		withRules(func(s *snapshot, out *values) { out.add(float64(s.active.Version)) })},
	{"throttled_rules_unusable", gauge, nil, "1 if this program cannot use the newest version of the rules, otherwise 0. CL.CHECK then fails.",
		withRules(func(s *snapshot, out *values) { out.is(s.active.Err != nil) })},
	{"throttled_rules_limits", gauge, nil, "Limits of the newest version, in all domains.",
		withRules(func(s *snapshot, out *values) { out.count(int64(s.newest.Limits)) })},
	{"throttled_rules_uncounted_limits", gauge, nil, "Limits of the active version without counters of their own, because of metrics-max-limits.",
		withRules(func(s *snapshot, out *values) { out.count(int64(s.uncounted)) })},
	{"throttled_rules_file_invalid", gauge, nil, "1 if the rules file has a problem, which INFO shows as rules_last_error; otherwise 0. The previous rules remain active.",
		withRules(func(s *snapshot, out *values) { out.is(s.file.Problem != nil) })},
	{"throttled_rules_file_active", gauge, nil, "1 if the active version has the text of the rules file, otherwise 0.",
		withRules(func(s *snapshot, out *values) { out.is(s.fileActive) })},
}

// withRules returns a function that collects nothing if the server has no rules.
func withRules(collect func(s *snapshot, out *values)) func(s *snapshot, out *values) {
	return func(s *snapshot, out *values) {
		if s.hasRules {
			collect(s, out)
		}
	}
}
