package topology

import "time"

// Upstream is the status of the upstream server of a sidecar.
type Upstream struct {
	Addresses []string  // host:port, as configured; must not be changed
	Address   string    // the address in use; empty if none answers
	Since     time.Time // time from which the address is in use, or from which none answers
	Answered  time.Time // time of the last answer to a probe; zero if there was none
	Connects  uint64    // number of times that an address was selected
	Failures  uint64    // number of failed attempts to connect
	Error     string    // reason why no address answers; empty while one is in use
}
