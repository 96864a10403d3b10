package docs

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
)

const patience = 2 * time.Minute

// documents returns the text of README.md and of each document in this directory, by name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

// allSessions returns the sessions of all documents.
func allSessions(t *testing.T) (all []session) {
	t.Helper()
	for name, text := range documents(t) {
		found, err := sessions(name, text)
		if err != nil {
			t.Error(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestSessions runs each session of the documents with redis-cli against a server whose
// clock advances only during waits in the session.
func TestSessions(t *testing.T) {
	path := buildProgram(t)
	played := map[string]bool{}
	for _, s := range allSessions(t) {
		played[s.file] = true
		t.Run(fmt.Sprintf("%s:%d", filepath.Base(s.file), s.line), func(t *testing.T) {
			p := startServer(t)
			p.program = path
			for _, st := range s.steps {
				p.play(t, s.file, &st)
			}
		})
	}
	if *update {
		rewrite(t)
		return
	}
	for _, name := range []string{"../README.md", "algorithms.md", "rules-tutorial.md", "rules-recipes.md", "rules.md", "envoy.md"} {
		if !played[name] {
			t.Errorf("%s has no session", name)
		}
	}
}

// place is a server and its clock.
type place struct {
	port    string
	now     *atomic.Uint64
	rules   *ruleset.Store
	log     ruleset.Log
	dir     string // directory of the rules file
	program string // path of bin/throttled
	server  *server.Server
}

// play runs a step of a session in a file.
func (p *place) play(t *testing.T, file string, st *step) {
	t.Helper()
	var shown string
	switch {
	case st.rules != "":
		p.save(t, file, st)
		return
	case st.tests != "":
		p.write(t, testFile, st.tests)
		return
	case st.args == nil:
		p.now.Add(uint64(st.wait))
		return
	case st.program:
		shown = p.run(t, st.args)
	default:
		shown = p.ask(t, st.options, st.args)
	}
	wrong := differ(st.want, grep(shown, st.grep))
	switch {
	case wrong != "" && *update:
		changes = append(changes, change{file, st.replyAt, len(st.want), grep(shown, st.grep)})
	case wrong != "":
		t.Errorf("%s:%d: %s: %s", file, st.line, strings.Join(st.args, " "), wrong)
	}
}

// startServer starts a server without keys and rules. Its clock is set to midnight UTC and does not advance.
func startServer(t *testing.T) place {
	t.Helper()
	opts, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	p := place{now: new(atomic.Uint64), rules: ruleset.NewStore(), dir: t.TempDir()}
	// The year is far in the future, so that the dates in rules files have not passed when a reader types the commands.
	p.now.Store(uint64(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()))
	p.log = ruleset.NewLocal(p.rules, p.wallTime)
	p.serve(t, server.New(server.Config{
		Engine:     buckets.New(buckets.Config{Clock: p.now.Load}),
		Rules:      p.rules,
		RulesLog:   p.log,
		RulesClock: p.wallTime,
		Options:    opts,
		Version:    "test",
	}))
	return p
}

// serve starts a server on a free port. It is shut down at the end of the test.
func (p *place) serve(t *testing.T, srv *server.Server) {
	t.Helper()
	p.server = srv
	var err error
	_, p.port, err = net.SplitHostPort(testserve.Start(t, srv, server.ErrServerClosed))
	if err != nil {
		t.Fatal(err)
	}
}

// ask returns the output of redis-cli for a command, in the format for terminals unless
// options select a different one.
func (p place) ask(t *testing.T, options, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	words := slices.Concat([]string{"-p", p.port, "--no-raw"}, options, args)
	cmd := exec.CommandContext(ctx, "redis-cli", words...)
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("redis-cli (apt-get install redis-tools): %v", err)
	}
	return string(out)
}

// TestEachCommandIsShown checks that the sessions of the documents contain each command and each form of its arguments.
func TestEachCommandIsShown(t *testing.T) {
	var lines []string
	for _, s := range allSessions(t) {
		for _, st := range s.steps {
			lines = append(lines, strings.Join(st.args, " "))
		}
	}
	for _, wanted := range []string{
		`^CL\.THROTTLE \S+ \d+ \d+ \S+$`,
		`^CL\.WINDOW \S+ \d+ \S+$`,
		`^CL\.WINDOW .* FIXED`,
		`^CL\.WINDOW .* LOG`,
		`^CL\.WINDOW .* BUCKETS \d+`,
		`^CL\.BUCKET `,
		`^CL\.LEAKY `,
		`^CL\.ALL .*THROTTLE .*WINDOW `,
		`^CL\.CHECK \S+ \w+ `,
		`^CL\.CHECK \S+ COST -?\d+ `,
		`^CL\.CHECK \S+ PEEK `,
		`^CL\.REPORT \S+ OUTCOME status=\d+ `,
		`^CL\.REPORT \S+ OUTCOME \S+ COST `,
		`^CL\.RULES (EXPLAIN|HISTORY|ROLLBACK) `,
		`^CL\..* MS$`,
		`^CL\..* -\d+$`,
		`^CL\..* 0$`,
	} {
		if re := regexp.MustCompile(wanted); !matchesAny(re, lines) {
			t.Errorf("no session has a command like %s", wanted)
		}
	}
}

func matchesAny(re *regexp.Regexp, lines []string) bool {
	for _, line := range lines {
		if re.MatchString(line) {
			return true
		}
	}
	return false
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks checks that links from the documents to files of the project are valid.
func TestLinks(t *testing.T) {
	for name, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("link in %s: %v", name, err)
			}
		}
	}
}

var (
	anchor  = regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unused  = regexp.MustCompile(`[^a-z0-9 -]`)
)

// TestAnchors checks that the links to sections of documents match the headings of these documents.
func TestAnchors(t *testing.T) {
	for name, text := range documents(t) {
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			if filepath.Ext(target) == ".md" && !anchorsOf(t, target)[m[2]] {
				t.Errorf("%s: %s has no heading for #%s", name, target, m[2])
			}
		}
	}
}

// anchorsOf returns the anchors of the headings of a document.
func anchorsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		known[strings.ReplaceAll(unused.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return known
}

// TestMemoryFigures checks the bytes per key in the overview table of algorithms.md. The first number in the fifth
// column must be the reply to MEMORY USAGE, minus the length of the key and, for BUCKETS, minus 6 bytes for its six
// counts.
func TestMemoryFigures(t *testing.T) {
	text := documents(t)["algorithms.md"]
	p := startServer(t)
	for row, c := range map[string]struct{ command, key string }{
		"GCRA":              {"CL.THROTTLE throttle 99 100 60", "throttle"},
		"sliding window":    {"CL.WINDOW sliding 100 60", "sliding"},
		"fixed window":      {"CL.WINDOW fixed 100 60 FIXED", "fixed"},
		"window log":        {"CL.WINDOW log 100 60 LOG", "log"},
		"window of buckets": {"CL.WINDOW buckets 100 60 BUCKETS 6", "buckets"},
		"token bucket":      {"CL.BUCKET tokens 100 1 60", "tokens"},
		"leaky bucket":      {"CL.LEAKY leaky 100 100 60", "leaky"},
	} {
		p.ask(t, nil, strings.Fields(c.command))
		var bytes int
		if _, err := fmt.Sscanf(p.ask(t, nil, []string{"MEMORY", "USAGE", c.key}), "(integer) %d", &bytes); err != nil {
			t.Fatalf("MEMORY USAGE of the key of %s: %v", row, err)
		}
		bytes -= len(c.key)
		if row == "window of buckets" {
			bytes -= 6
		}
		cells := regexp.MustCompile(`(?m)^\| \[` + row + `\]\(#[a-z-]+\) \|[^|]*\|[^|]*\|[^|]*\| (\d+)`).FindStringSubmatch(text)
		if cells == nil || cells[1] != strconv.Itoa(bytes) {
			t.Errorf("a key of %s takes %d bytes, but the row and the number in the overview are %.200q", row, bytes, cells)
		}
	}
}
