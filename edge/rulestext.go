package edge

import (
	"net/http"
	"strconv"
)

// getRules returns the text of the active rules. Its version is in the header ETag.
func (s *Server) getRules(w http.ResponseWriter, r *http.Request) error {
	version, text, err := s.config.Rules()
	switch {
	case err != nil:
		return unavailable(err.Error())
	case version == 0:
		return refuse(http.StatusNotFound, "no_rules", "no rules are loaded; start the server with the option rules, or use CL.RULES SET")
	}
	tag := `"` + strconv.FormatUint(version, 10) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeBody(w, http.StatusOK, "application/yaml", text)
	return nil
}
