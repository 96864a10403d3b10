package metrics

// sidecarRows are the metrics of the upstream of a sidecar.
var sidecarRows = []row{
	{"throttled_upstream_answers", gauge, nil, "1 if an upstream of the sidecar is in use, 0 if none answers. Absent on other servers, as the metrics below.",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.is(u.Answers)
			}
		}},
	{"throttled_upstream_silence_seconds", gauge, nil, "Time since the upstream has answered a probe, or since the start of the sidecar. At most about one second while it answers.",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.add(u.Silence.Seconds())
			}
		}},
	{"throttled_upstream_connects_total", counter, []string{"result"}, "Attempts to connect to an upstream that were followed by its use (selected), or failed.",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.count(int64(u.Connects), "selected")
				out.count(int64(u.Failures), "failed")
			}
		}},
	{"throttled_upstream_away_total", counter, []string{"policy"}, "Limiter commands that the upstream has not answered in time, by the upstream-away or on_failure that has decided them: open (admitted), closed (refused), or the share of the sidecar: local (admitted), local_refused.",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.count(u.Open, "open")
				out.count(u.Closed, "closed")
				out.count(u.Local, "local")
				out.count(u.LocalRefused, "local_refused")
			}
		}},
	{"throttled_lessee_decisions_total", counter, []string{"result"}, "Limits of requests that the sidecar has decided itself (admitted with leased units, or refused), or sent to the upstream (forwarded).",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.count(u.Lessee.Admitted, "admitted")
				out.count(u.Lessee.Refused, "refused")
				out.count(u.Lessee.Forwarded, "forwarded")
			}
		}},
	{"throttled_lessee_units", gauge, nil, "Leased units that the sidecar holds and has not spent.",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.add(float64(u.Lessee.Units))
			}
		}},
	{"throttled_lessee_units_total", counter, []string{"result"}, "Units that the upstream has granted (drawn), that were returned, or that were lost because their lease ended first.",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.count(u.Lessee.Drawn, "drawn")
				out.count(u.Lessee.Returned, "returned")
				out.count(u.Lessee.Lost, "lost")
			}
		}},
	{"throttled_lessee_calls_total", counter, []string{"call"}, "Calls to the upstream: draws, returns, and draws without an answer (failed).",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.count(u.Lessee.Draws, "draw")
				out.count(u.Lessee.Returns, "return")
				out.count(u.Lessee.Failures, "failed")
			}
		}},
}
