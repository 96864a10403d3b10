package server

import "cmp"

// infoRules writes the newest version of the rules on this node, the version of its file, and the problem that must be
// corrected, if there is one.
func infoRules(s *Server, w *infoWriter) {
	if s.live == nil {
		return
	}
	v, a := s.live.Newest(), s.live.Active()
	w.field("rules_version", v.Number)
	w.field("rules_active_version", a.Version)
	w.field("rules_hash", v.Hash)
	w.field("rules_limits", v.Limits)
	file := s.live.FileVersion()
	w.field("rules_file_version", file)
	w.field("rules_file_active", countTrue(file > 0 && file == a.Version))
	w.field("rules_last_error", problemText(cmp.Or(a.Err, s.live.File().Problem)))
}
