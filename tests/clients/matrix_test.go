package clienttests

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
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

// testStandalone runs the checks that need no fault.
func (m *matrix) testStandalone(t *testing.T) {
	open := start(t, "")
	t.Run("clients", func(t *testing.T) {
		eachDriver(t, func(t *testing.T, d *driver) {
			defer m.note(t, d)
			m.testBasics(t, d, open)
			for _, f := range securities {
				t.Run(f.name, func(t *testing.T) { f.test(t, d) })
			}
			if d.lacks["TLS"] == "" {
				t.Run("TLS", func(t *testing.T) { testTLS(t, d) })
			}
			at := target(modePlain, d.name, "", open.addr)
			if got := d.admitted(t, at...); got != concurrentLimit {
				t.Errorf("%d callers: %d calls are admitted, want %d", concurrentCallers, got, concurrentLimit)
			}
		})
	})
}

// note records whether a test of a client has failed.
func (m *matrix) note(t *testing.T, d *driver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[d.name] = m.failed[d.name] || t.Failed()
}

// testBasics runs the checks of commands with each protocol version.
func (m *matrix) testBasics(t *testing.T, d *driver, open *server) {
	t.Helper()
	basics := d.supported("version", "connect", "pipeline", "transaction", "error")
	verdicts := d.check(t, basics, target(modePlain, d.name, "", open.addr)...)
	expectAll(t, verdicts)
	m.mu.Lock()
	m.versions[d.name] = verdicts["version"].Detail
	m.mu.Unlock()
	for _, version := range d.resp {
		text := strconv.Itoa(version)
		at := append(target(modePlain, d.name+" RESP"+text, "", open.addr), "--resp", text)
		expectAll(t, d.check(t, d.supported("connect", "pipeline", "transaction", "error"), at...))
	}
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
