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
	{"throttled_upstream_away_total", counter, []string{"policy"}, "Limiter commands that the upstream has not answered in time, by the upstream-away that has decided them: open (admitted) or closed (refused).",
		func(s *snapshot, out *values) {
			if u := &s.server.Upstream; u.Used {
				out.count(u.Open, "open")
				out.count(u.Closed, "closed")
			}
		}},
}
