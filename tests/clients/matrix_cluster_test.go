package clienttests

import (
	"slices"
	"testing"

	"github.com/throttledhq/throttled/internal/tlstest"
)

// subject is a client in one of its modes.
type subject struct {
	*driver
	mode string
}

// lacking returns the reason why the client does not support a check or a variant in this mode, or "".
func (s subject) lacking(name string) string { return s.lacks[name] + s.lacks[s.mode+" "+name] }

// supported returns the checks that the client supports in this mode.
func (s subject) supported(checks ...string) []string {
	return slices.DeleteFunc(slices.Clone(checks), func(name string) bool { return s.lacking(name) != "" })
}

// supports reports whether the client supports a variant in this mode.
func (s subject) supports(v variant) bool {
	return s.lacking(v.name) == "" && (v.resp == 0 || slices.Contains(s.resp, v.resp))
}

func (s subject) String() string { return s.name + ", " + s.mode }

// subjects returns the selected clients in each of their modes.
func subjects() (list []subject) {
	for _, d := range selected() {
		for _, mode := range d.modes {
			list = append(list, subject{d, mode})
		}
	}
	return list
}

// testCluster runs the checks with a cluster, and then the load of each client through each fault.
func (m *matrix) testCluster(t *testing.T) {
	c, ca := startSecuredTrio(t)
	t.Run("checks", func(t *testing.T) {
		for _, s := range subjects() {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				defer m.note(t, s.driver)
				p := s.placeIn(t, c, ca)
				s.testVariants(t, p, protocols)
				s.testVariants(t, p, secured)
				if s.callers > 1 { // fifty processes use so much of the processor that a leader can be lost
					s.testConcurrent(t, p)
				}
			})
		}
	})
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults {
			for batch := range slices.Chunk(subjects(), batchSize()) {
				m.survive(t, c, f, batch)
			}
		}
	})
}

// tlsPortOf has the counterpart with TLS of each port for clients.
var tlsPortOf = map[string]string{portForAll: "6390", portForCluster: "6394", portForSentinel: "26390", portForLeader: "6396"}

// startSecuredTrio starts a cluster that also has ports for TLS and a further user. It returns the file of the CA for clients.
func startSecuredTrio(t *testing.T) (c *trio, ca string) {
	t.Helper()
	c = newTrio(t, heartbeat())
	files := tlstest.NewFor(t, c.hosts()...)
	c.options = slices.Concat(noLoginLimit, files.Args("no"), []string{"--tls-port", tlsPortOf[portForAll], "--tls-cluster-port", tlsPortOf[portForCluster],
		"--tls-sentinel-port", tlsPortOf[portForSentinel], "--tls-leader-port", tlsPortOf[portForLeader]})
	c.start(t)
	for _, node := range c.nodes {
		node.permitLogins()
	}
	c.nodes[trioIDs[0]].createShop(t)
	return c, files.Path("ca.pem")
}

// placeIn returns the addresses of a cluster. A client that uses one node is connected to a follower. The others have the
// addresses of all nodes, and that of the leader is the first.
func (s subject) placeIn(t *testing.T, c *trio, ca string) place {
	t.Helper()
	leader := c.awaitLeader(t)
	at := func(port string) []string {
		if s.mode == modePlain {
			return []string{c.at(otherThan(leader), port)}
		}
		return c.all(leader, port)
	}
	port := portOf[s.mode]
	return place{plain: at(port), tls: at(tlsPortOf[port]), ca: ca, password: trioPassword}
}
