package main

import (
	"io"
	"log/slog"
	"runtime"
	"testing"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
)

// TestReserveProcessors checks that a cluster node limits the number of concurrent commands to less than GOMAXPROCS,
// and that a standalone server has no limit.
func TestReserveProcessors(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	addr := freeAddr(t)
	for name, tt := range map[string]struct {
		args  []string
		turns int
	}{
		"single":  {nil, 0},
		"cluster": {[]string{"--cluster-id", "c", "--node-id", "n1", "--raft-addr", addr, "--bootstrap", "n1=" + addr, "--raft-insecure", "yes"}, cores},
	} {
		runtime.GOMAXPROCS(cores)
		opts, err := options.Load(append([]string{"--data-dir", t.TempDir(), "--port", "0"}, tt.args...), noEnv)
		if err != nil {
			t.Fatal(err)
		}
		p := &program{opts: opts, log: slog.New(slog.DiscardHandler), logs: &logOutput{stderr: io.Discard}}
		config := server.Config{Users: acl.NewStore(acl.NewSet(server.UserCatalog()))}
		if err := p.openReplica(opts.Get(), &config); err != nil {
			t.Fatal(err)
		}
		processors := runtime.GOMAXPROCS(0)
		release(t, p)
		if config.Turns != tt.turns || tt.turns > 0 && processors <= config.Turns {
			t.Errorf("%s: Turns is %d, GOMAXPROCS is %d; want Turns 0 in a standalone server, and less than GOMAXPROCS in a cluster node", name, config.Turns, processors)
		}
	}
}
