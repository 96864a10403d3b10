package server

// infoRules writes the newest version of the rules on this node, and the problem that must be corrected, if there is
// one.
func infoRules(s *Server, w *infoWriter) {
	if s.live == nil {
		return
	}
	v, a := s.live.Newest(), s.live.Active()
	w.field("rules_version", v.Number)
	w.field("rules_active_version", a.Version)
	w.field("rules_hash", v.Hash)
	w.field("rules_limits", v.Limits)
	problem := s.live.FileProblem()
	if a.Err != nil {
		problem = a.Err.Error()
	}
	w.field("rules_last_error", oneLine(problem))
}
