// Package throttled holds the program's packages; here are only the tests of the house
// as a whole.
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

// floors says on which floor each package stands. A package may import those on lower
// floors only.
var floors = map[string]int{
	"limiter": 0, // the vocabulary: it knows no package
	"resp":    0,
	"glob":    0,
	"muldiv":  0,
	"dirs":    0, // locks and durable names, for all that keeps files

	"topology": 0, // who is in a cluster: both the node and the faces speak of it
	"mutant":   0, // deliberate bugs, for tests

	"internal/goroutines": 0, // which are left, for tests
	"internal/freeport":   0, // for servers that tests start
	"internal/race":       0, // tests scaled down under the race detector

	"peerlink/certs": 0, // what nodes may be called is asked by all that name them

	"gcra":        1, // answers in the vocabulary, as all arithmetic does
	"window":      1,
	"windowlog":   1,
	"tokenbucket": 1,
	"options":     1, // its file is quoted as an inline command is, CONFIG GET matches as KEYS does

	"limiter/limitertest": 1, // the rules of the vocabulary, for tests

	"leaky": 2, // is GCRA read as a queue

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
	"scripts/chaos/check":     6, // judges histories, and knows no server
	"scripts/chaos/history":   5,
	"scripts/chaos":           7,
	"scripts/plots":           7,
	"scripts/redis-cli-tests": 7,
}

// arithmetic is barred from what is not.
var arithmetic = map[string]string{"sync": "arithmetic shares nothing", "os": "arithmetic does no I/O", "net": "arithmetic does no I/O", "log/slog": "arithmetic does no I/O"}

// barred are the imports that are wrong although they point down.
var barred = map[string]map[string]string{
	"server":              {module + "buckets": "it meets the state only through limiter.Engine"},
	"persistence":         {module + "buckets": "it meets the state only through its own State"},
	"importer":            {module + "buckets": "it hands records to whoever asked for them"},
	"cmd/throttled-bench": {module + "server": "it measures any server alike", module + "buckets": "it measures any server alike"},
	"gcra":                arithmetic,
	"window":              arithmetic,
	"windowlog":           arithmetic,
	"tokenbucket":         arithmetic,
	"leaky":               arithmetic,
	"muldiv":              arithmetic,
	"buckets": {"net": "state knows no network", "os": "state knows no files",
		module + "options": "what it needs is in its Config", module + "resp": "text exists only in the faces"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

// listPackages asks the go command for the packages of this module.
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
			t.Errorf("package %s has no floor: add it to the table", name)
			continue
		}
		for _, path := range p.Imports {
			imported, inside := strings.CutPrefix(path, module)
			if inside && floors[imported] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports only point down", name, floor, imported, floors[imported])
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
