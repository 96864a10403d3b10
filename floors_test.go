// Package throttled contains only tests of the repository as a whole.
package throttled

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/throttledhq/throttled/"

// floors assigns each package to a layer. A package may import only packages of lower
// layers.
var floors = map[string]int{
	"limiter": 0, // shared types; imports no other package of the module
	"resp":    0,
	"glob":    0,
	"muldiv":  0,
	"dirs":    0, // file locks and durable renames

	"topology": 0, // membership of a cluster; used by the node and the server
	"mutant":   0, // switches of deliberate bugs, for tests

	"internal/lograte":    0, // limits repeated log lines
	"internal/goroutines": 0, // leaked goroutines, for tests
	"internal/freeport":   0, // ports for servers started by tests
	"internal/race":       0, // scales tests down under the race detector

	"gcra":        1, // uses the types of limiter, as do all algorithms
	"window":      1,
	"windowlog":   1,
	"tokenbucket": 1,
	"options":     1, // imports resp for the quoting in its file, glob for CONFIG GET, topology for the names of nodes

	"peerlink/certs": 1, // certificates of nodes; imports the rules for their names from topology

	"limiter/limitertest": 1, // conformance tests of the limiter types

	"leaky": 2, // built on gcra

	"buckets":  3,
	"entrylog": 3,

	"persistence": 4,
	"importer":    4,
	"peerlink":    4,
	"raftlog":     4,

	"cluster":        5,
	"server/forward": 5, // knows streams and replies, and no server

	"server": 6,

	"cmd/throttled":           7,
	"cmd/throttled-bench":     7,
	"docs":                    7,
	"scripts/bench":           7,
	"scripts/chaos/check":     6, // checks histories, independent of the server
	"scripts/chaos/history":   5,
	"scripts/chaos":           7,
	"scripts/plots":           7,
	"scripts/redis-cli-tests": 7,
}

// arithmetic lists the imports that are forbidden in pure packages, with the reasons.
var arithmetic = map[string]string{"sync": "arithmetic has no shared state", "os": "arithmetic does no I/O", "net": "arithmetic does no I/O", "log/slog": "arithmetic does no I/O"}

// barred lists forbidden imports of lower layers, with the reasons.
var barred = map[string]map[string]string{
	"server":              {module + "buckets": "it accesses the state only through limiter.Engine"},
	"persistence":         {module + "buckets": "it accesses the state only through its interface State"},
	"importer":            {module + "buckets": "it passes records to a function of its caller"},
	"cmd/throttled-bench": {module + "server": "it must not depend on the server it measures", module + "buckets": "it must not depend on the server it measures"},
	"gcra":                arithmetic,
	"window":              arithmetic,
	"windowlog":           arithmetic,
	"tokenbucket":         arithmetic,
	"leaky":               arithmetic,
	"muldiv":              arithmetic,
	"buckets": {"net": "the table does no network I/O", "os": "the table does no file I/O",
		module + "options": "its settings are in its Config", module + "resp": "the table does not use the protocol"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

// listPackages returns the packages of this module as listed by the go command.
func listPackages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		all = append(all, p)
	}
}

func TestImportsPointDown(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name, inside := strings.CutPrefix(p.ImportPath, module)
		if !inside {
			continue // this package
		}
		seen[name] = true
		floor, known := floors[name]
		if !known {
			t.Errorf("package %s has no layer: add it to floors", name)
			continue
		}
		for _, path := range p.Imports {
			imported, inside := strings.CutPrefix(path, module)
			if inside && floors[imported] >= floor {
				t.Errorf("%s (layer %d) imports %s (layer %d): a package may import lower layers only", name, floor, imported, floors[imported])
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
			t.Errorf("package %s has a layer but does not exist", name)
		}
	}
}
