// Package throttled contains only tests of the repository as a whole.
package throttled

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/throttledhq/throttled/"

// floors assigns each package to a floor. A package may import only packages of lower
// floors.
var floors = map[string]int{
	"limiter":  0, // shared types; imports no other package of the module
	"resp":     0,
	"topology": 0, // members and names of a cluster; used by cluster, server and other packages

	"internal/muldiv":     0,
	"internal/glob":       0,
	"internal/yamltext":   0, // YAML that may come from a client
	"internal/fsutil":     0, // directory locks, durable directory entries and regular files
	"internal/nearest":    0, // the option or key that a misspelled word probably means
	"internal/lograte":    0, // limits repeated log lines
	"internal/failpoint":  0, // switches for deliberate bugs, for tests
	"internal/goroutines": 0, // detects leaked goroutines, for tests
	"internal/sdnotify":   0, // reports the state of the process to systemd
	"internal/freeport":   0, // ports for servers started by tests
	"internal/testbuild":  0, // builds the program for tests
	"internal/testserve":  0, // runs servers in tests
	"internal/procpause":  0, // checks that processes are paused, for tests
	"internal/smalldisk":  0, // runs tests of a full disk
	"internal/race":       0, // scales tests down under the race detector
	"internal/fields":     0, // binary fields of changes and leases
	"internal/sourceaddr": 0, // addresses under which clients are counted
	"internal/background": 0, // long computations with a low priority
	"internal/histogram":  0, // durations and numbers by powers of two
	"ruleset/counts":      0, // decisions by limit and outcome
	"server/statistics":   1, // statistics of a server, for metrics

	"gcra":        1, // uses the types of limiter, as do all algorithms
	"window":      1,
	"windowlog":   1,
	"tokenbucket": 1,

	"internal/connlimit": 1, // limits the connections of a listener
	"ban":                1,
	"options":            1, // imports resp for the quoting rules of redis.conf, glob for CONFIG GET, topology for node names

	"lessee/courier": 4, // sends the draws and returns of a lessee
	"lessee":         3, // spends leases; its tests use lease

	"acl": 1, // users and permissions; glob for patterns, nearest for misspelled commands

	"edge/http1":      0, // serves HTTP/1.1 in front of net/http
	"edge/httpauth":   0, // parses the credentials of HTTP requests and gRPC calls
	"edge/attributes": 1, // attributes of HTTP requests; nearest for misspelled declarations

	"cluster/transport/certs": 1, // node certificates; node names follow the rules of topology

	"limiter/limitertest": 1, // rules that all algorithms obey, for tests

	"leaky":              2, // built on gcra
	"lease":              2, // leases of the states of the algorithms
	"lease/leasetest":    1, // rules of the algorithms over histories with leases, for tests
	"internal/tlsclient": 2, // TLS for connections to a server; reads key pairs as cluster/transport/certs does
	"internal/tlstest":   2, // files and clients of servers with TLS, for tests
	"internal/tlsserver": 3, // TLS for listeners of clients; reads serial lists as cluster/transport/certs does

	"buckets":     3,
	"rules":       3, // parses rules files; glob for matchers, the algorithms to compile amounts
	"cluster/wal": 3,

	"persistence":        4,
	"internal/ruletest":  4, // runs the test files of rules
	"rules/envoy":        4, // converts to the format of rules
	"ruleset":            4, // the live rules and their versions
	"edge/decision":      4, // decisions of the server for the HTTP and gRPC servers; rules for the names of periods
	"cluster/transport":  4,
	"cluster/raftstore":  4,
	"internal/rediscell": 4,

	"edge":           6, // serves HTTP
	"edge/headers":   5, // headers and problems of HTTP responses from decisions
	"edge/edgetest":  5, // runs commands on the server behind the HTTP and gRPC servers, for tests
	"tracing":        5, // OpenTelemetry; edge and edge/grpc name spans and decisions
	"cluster":        5,
	"server/forward": 5, // streams to the leader; does not use package server
	"sidecar":        5, // the upstream of a sidecar; does not use package server

	"server":    6,
	"edge/grpc": 6, // Envoy's gRPC interfaces
	"metrics":   6, // Prometheus; reads published statistics, and does not use package server

	"client":                         6, // for programs of users: decides with leases
	"client/decider":                 7, // decides requests of the middleware with the client
	"client/internal/testserver":     5, // runs the server as a process
	"middleware":                     6, // for programs of users: imports no package of the server
	"middleware/retry":               6,
	"middleware/grpclimit":           7,
	"middleware/internal/testserver": 5, // runs the server as a process

	"cmd/throttled":            7,
	"cmd/throttled-bench":      7,
	"docs":                     7,
	"scripts/redis-cli-tests":  7,
	"tests/bench":              7,
	"tests/bench/hostile":      7,
	"tests/bench/loadgen":      0, // independent of the server
	"tests/chaos/check":        6, // checks histories, independent of the server
	"tests/chaos/history":      5,
	"tests/chaos":              7,
	"tests/clients":            7,
	"tests/clients/drivers/go": 7,
	"tests/deploy":             7,
	"tests/metrics":            7,
	"tests/openapi":            7,
	"tests/gateways":           7,
	"tests/plots":              7,
	"tests/recipes":            7,
	"tests/schema":             7,
	"tests/shape":              7,
}

// arithmetic lists the imports that are forbidden in packages that only compute, with the reasons.
var arithmetic = map[string]string{"sync": "arithmetic has no shared state", "os": "arithmetic does no I/O", "net": "arithmetic does no I/O", "log/slog": "arithmetic does no I/O"}

// barred lists, for each package, the imports that are forbidden although the floors allow them, with the reasons.
var barred = map[string]map[string]string{
	"server":              {module + "buckets": "it accesses the state only through limiter.Engine"},
	"persistence":         {module + "buckets": "it accesses the state only through its interface State"},
	"internal/rediscell":  {module + "buckets": "it passes records to a function of its caller"},
	"cmd/throttled-bench": {module + "server": "it must not depend on the server it measures", module + "buckets": "it must not depend on the server it measures"},
	"gcra":                arithmetic,
	"window":              arithmetic,
	"windowlog":           arithmetic,
	"tokenbucket":         arithmetic,
	"leaky":               arithmetic,
	"ban":                 arithmetic,
	"lease":               arithmetic,
	"internal/muldiv":     arithmetic,
	"buckets": {"net": "the table does no network I/O", "os": "the table does no file I/O",
		module + "options": "its settings are in its Config", module + "resp": "the table does not use the protocol"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

// modules returns the directories of the modules of the repository.
func modules(t *testing.T) []string {
	t.Helper()
	dirs := []string{"."}
	for _, pattern := range []string{"client/go.mod", "cmd/*/go.mod", "middleware/go.mod", "middleware/*/go.mod", "tests/*/go.mod"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			dirs = append(dirs, filepath.Dir(name))
		}
	}
	return dirs
}

// listPackages returns the packages of the module in dir as listed by the go command.
func listPackages(t *testing.T, dir string) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-C", dir, "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", dir, err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		all = append(all, p)
	}
}

// TestModules checks that the Makefile tests every module.
func TestModules(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^MODULES := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no MODULES")
	}
	got, want := strings.Fields(string(line[1])), modules(t)[1:]
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("MODULES in the Makefile is %q, but the repository has %q", got, want)
	}
}

func TestImportsPointDown(t *testing.T) {
	seen := map[string]bool{}
	var all []listed
	for _, dir := range modules(t) {
		all = append(all, listPackages(t, dir)...)
	}
	for _, p := range all {
		name, inside := strings.CutPrefix(p.ImportPath, module)
		if !inside {
			continue // a package in the root folder
		}
		seen[name] = true
		floor, known := floors[name]
		if !known {
			t.Errorf("package %s has no floor: add it to floors", name)
			continue
		}
		for _, path := range p.Imports {
			imported, inside := strings.CutPrefix(path, module)
			if inside && floors[imported] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): a package may import lower floors only", name, floor, imported, floors[imported])
			}
			reason, wrong := barred[name][imported]
			if !wrong {
				reason, wrong = barred[name][path]
			}
			if wrong {
				t.Errorf("%s imports %s: %s", name, path, reason)
			}
		}
	}
	for name := range floors {
		if !seen[name] {
			t.Errorf("package %s has a floor but does not exist", name)
		}
	}
}
