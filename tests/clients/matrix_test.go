package clienttests

import (
	"flag"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
	"github.com/throttledhq/throttled/internal/tlstest"
)

var (
	matrixClients = flag.String("matrix", "debian", "clients of the matrix: all, the names of sets, or the names of clients, separated by commas")
	matrixStrict  = flag.Bool("matrix-strict", false, "apply the bars to failed calls of the matrix; requires an otherwise idle machine")
	matrixWrite   = flag.Bool("matrix-write", false, "write the results of the matrix to docs/clients.md")
)

// selected returns the drivers that the option -matrix selects.
func selected() (list []*driver) {
	words := strings.Split(*matrixClients, ",")
	for i := range drivers {
		d := &drivers[i]
		if slices.Contains(words, "all") || slices.Contains(words, d.set) || slices.Contains(words, d.name) {
			list = append(list, d)
		}
	}
	return list
}

// matrix has the results of a run.
type matrix struct {
	mu       sync.Mutex
	versions map[string]string            // by client
	failed   map[string]bool              // by client: a check without a fault has failed
	faults   map[string]map[string]outage // by client, then by mode and fault
}

// TestMatrix runs every selected client against the built server: standalone, in a cluster, and through the loss and the
// transfer of the leader.
func TestMatrix(t *testing.T) {
	if len(selected()) == 0 {
		t.Fatalf("-matrix %s selects no client", *matrixClients)
	}
	if *matrixWrite && !*matrixStrict {
		t.Fatal("-matrix-write requires -matrix-strict: docs/clients.md describes runs with the default heartbeat")
	}
	m := &matrix{versions: map[string]string{}, failed: map[string]bool{}, faults: map[string]map[string]outage{}}
	for _, d := range selected() {
		d.prepare(t)
	}
	t.Run("standalone", m.testStandalone)
	t.Run("restart", m.testRestart)
	t.Run("cluster", m.testCluster)
	if *matrixWrite {
		m.write(t)
	}
}

// eachDriver runs a test for each selected driver. The tests run concurrently.
func eachDriver(t *testing.T, test func(t *testing.T, d *driver)) {
	for _, d := range selected() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// testStandalone runs the checks that need no fault, with a server without a password and with a server that has a
// password, users and TLS.
func (m *matrix) testStandalone(t *testing.T) {
	open := place{plain: []string{start(t, "").addr}}
	locked, _ := startSecured(t)
	t.Run("clients", func(t *testing.T) {
		eachDriver(t, func(t *testing.T, d *driver) {
			defer m.note(t, d)
			m.noteVersion(t, d)
			s := subject{d, modePlain}
			s.testVariants(t, open, protocols)
			s.testVariants(t, locked, secured)
			s.testConcurrent(t, open)
		})
	})
}

// startSecured starts a server with a password, a further user, and a port for TLS.
func startSecured(t *testing.T) (place, *server) {
	t.Helper()
	files := tlstest.NewFor(t, "127.0.0.1")
	plain, encrypted := strconv.Itoa(freeport.Of(t)), strconv.Itoa(freeport.Of(t))
	srv := launch(t, matrixPassword, slices.Concat([]string{"--port", plain, "--tls-port", encrypted}, noLoginLimit, files.Args("no"))...)
	srv.awaitReady(t)
	srv.permitLogins()
	srv.createShop(t)
	at := func(port string) []string { return []string{net.JoinHostPort("127.0.0.1", port)} }
	return place{plain: at(plain), tls: at(encrypted), ca: files.Path("ca.pem"), password: matrixPassword}, srv
}

// noLoginLimit disables the limit on wrong passwords, which counts all clients of an address.
var noLoginLimit = []string{"--auth-failures-per-minute", "0"}

// note records whether a test of a client has failed.
func (m *matrix) note(t *testing.T, d *driver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[d.name] = m.failed[d.name] || t.Failed()
}

// noteVersion records the version of a client.
func (m *matrix) noteVersion(t *testing.T, d *driver) {
	t.Helper()
	verdicts := d.check(t, []string{"version"})
	expectAll(t, verdicts)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[d.name] = verdicts["version"].Detail
}

// testRestart restarts a server while all clients are connected. Each client must reconnect.
func (m *matrix) testRestart(t *testing.T) {
	srv := start(t, "")
	runs := map[*driver]*driverRun{}
	for _, d := range selected() {
		if d.lacks["reconnect"] != "" {
			continue
		}
		runs[d] = d.begin(t, patience, append([]string{"--check", "reconnect"}, target(modePlain, d.name, "", srv.addr)...)...)
	}
	for d, r := range runs {
		if v, err := r.next(); err != nil || v.Event != "ready" {
			t.Errorf("%s: got %+v, error %v; want the event ready", d.name, v, err)
		}
	}
	srv.stop(t)
	startOn(t, srv.port(t), "")
	for d, r := range runs {
		if _, err := r.in.Write([]byte("restarted\n")); err != nil {
			t.Errorf("%s: %v", d.name, err)
			continue
		}
		v, err := r.next()
		if err != nil || !v.OK || v.Failed > 1 {
			t.Errorf("%s: got %+v, error %v; want at most one failed call after the restart", d.name, v, err)
			continue
		}
		if err := r.end(); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
	}
}
