package edge

import "net/http"

// getHealth reports that the process serves requests.
func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, "ok\n")
	return nil
}

// getReady reports whether requests can be decided. Load balancers send requests only to servers that are ready.
func (s *Server) getReady(w http.ResponseWriter, _ *http.Request) error {
	if s.draining.Load() {
		return unavailable("the server is shutting down")
	}
	if err := s.config.Ready(); err != nil {
		return unavailable(err.Error())
	}
	writeText(w, http.StatusOK, "ready\n")
	return nil
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	if s.config.Metrics == nil {
		return refuse(http.StatusNotFound, "not_found", "there are no metrics")
	}
	s.config.Metrics.ServeHTTP(w, r)
	return nil
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, status, "text/plain; charset=utf-8", []byte(text))
}
