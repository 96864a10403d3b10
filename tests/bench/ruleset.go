package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	manyRules    = 100_000
	rulesFor     = 10 * time.Second // duration of a run of the load
	rulesLoadBar = 2 * time.Second
	rulesWaitBar = 2 * time.Millisecond
	rulesWithin  = 3 * time.Minute
	// rulesRate is the number of requests per second. The load, the compilation and the garbage collector together must
	// use less than the processors of a small machine, because the longest delay would otherwise be the wait for a processor.
	rulesRate = 5_000
	// slowerThan is the shortest execution of a command that is recorded in the slow log.
	slowerThan = 200 * time.Microsecond
)

// rulesText returns a rules file with n limits by prefixes, templates, exact values and networks, in equal numbers. Four
// limits apply to each request of rulesCheck. All limits have the given amount.
func rulesText(n int, amount string) string {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nattributes: {client: {first_of: [key, ip]}}\nlimits:\n")
	for i := range n {
		k := i / 4
		when := [...]string{
			fmt.Sprintf("{path: /s%d/*, method: [GET, POST]}", k),
			fmt.Sprintf(`{path: "/s%d/{id}/orders"}`, k),
			fmt.Sprintf("{client: key%d, path: /s%d/*}", k, k),
			fmt.Sprintf("{ip: 10.%d.%d.0/24}", k>>8, k&255),
		}[i%4]
		fmt.Fprintf(&b, "  l%d: {when: %s, per: [client], allow: %s}\n", i, when, amount)
	}
	return b.String()
}

// rulesCheck is the load, in the syntax of throttled-bench with manyRules/4 keys.
const rulesCheck = "CL.CHECK d path /s{rand}/7/orders method GET key key{rand} ip 10.0.0.9"

// replacement is the result of a run of the load in which a set replaced another, or in which nothing was replaced.
type replacement struct {
	latencies
	took      time.Duration // from the signal until the new set is active; 0 if nothing was replaced
	executing float64       // longest execution of a CL.CHECK in the server, in milliseconds; 0 if shorter than slowerThan
	resident  int64         // RSS of the server at the end, in bytes
}

// replaceRules replaces a set of many limits by another under load. It compares the longest latency with that of the same
// load without a replacement, in alternating runs.
//
// The latencies are those of the clients. The execution of a command in the server does not include the time for which
// the command waits before a thread of the server runs it.
func replaceRules(s settings, b *board) error {
	texts := [2]string{rulesText(manyRules, "1000 per minute"), rulesText(manyRules, "1001 per minute burst 1000")}
	return withGenerator(func(g generator) error {
		return withRules(texts[0], nil, func(p *process, path string) error {
			b.note("%d limits, %d bytes; the server started in %v", manyRules, len(texts[0]), p.took.Round(time.Millisecond))
			if err := checkApplies(p.addr, "CL.CHECK d path /s0/7/orders method GET key key0 ip 10.0.0.9", "l0", "l1", "l2", "l3"); err != nil {
				return err
			}
			if _, err := command(p.addr, fmt.Sprintf("CONFIG SET slowlog-log-slower-than %d slowlog-max-len 1000", slowerThan.Microseconds())); err != nil {
				return err
			}
			return alternate(g, p, path, texts, s.rounds, b)
		})
	})
}

// alternate runs the load without and with a replacement, in turn, and prints the results.
func alternate(g generator, p *process, path string, texts [2]string, rounds int, b *board) error {
	var quiet, during []replacement
	replaced := 0 // also counts runs that are repeated, whose set must differ from the one before
	replace := func() (time.Duration, error) {
		replaced++
		return replaceFile(p, path, texts[replaced%2])
	}
	for range rounds {
		q, err := loadRules(g, p, func() (time.Duration, error) { return 0, nil }, b)
		if err != nil {
			return err
		}
		d, err := loadRules(g, p, replace, b)
		if err != nil {
			return err
		}
		quiet, during = append(quiet, q), append(during, d)
	}
	return showReplacements(p.addr, quiet, during, b)
}

// loadRules runs the load, and calls the function happen in the middle of it. A run on a stalled machine is repeated.
func loadRules(g generator, p *process, happen func() (time.Duration, error), b *board) (r replacement, err error) {
	for try := 1; ; try++ {
		if r, err = loadRulesOnce(g, p, happen); err != nil || r.late <= tooLate || try == maxTries {
			return r, err
		}
		b.note("repeated: the generator was %.0f ms late", r.late)
	}
}

func loadRulesOnce(g generator, p *process, happen func() (time.Duration, error)) (r replacement, err error) {
	if _, err := command(p.addr, "SLOWLOG RESET"); err != nil {
		return r, err
	}
	happened := make(chan error, 1)
	go func() {
		time.Sleep(rulesFor / 3) // the load must run before and after it
		var err error
		r.took, err = happen()
		happened <- err
	}()
	l, err := g.openLoop(p.addr, rulesRate, rulesFor, "-keys", strconv.Itoa(manyRules/4), "-command", rulesCheck)
	if err = errors.Join(err, <-happened); err != nil {
		return r, err
	}
	r.latencies = l
	text, err := command(p.addr, "SLOWLOG GET -1")
	if err != nil {
		return r, err
	}
	r.executing = longestCheck(text)
	r.resident, err = residentBytes(p.pid())
	return r, err
}

// replaceFile replaces the rules file, and waits until the server decides by it. It returns the time from the signal that
// requests to read the file.
func replaceFile(p *process, path, text string) (time.Duration, error) {
	before, err := infoField(p.addr, "rules", "rules_active_version")
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), rulesWithin)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		now, err := infoField(p.addr, "rules", "rules_active_version")
		if err != nil || now != before {
			return time.Since(begun), err
		}
		select {
		case <-ctx.Done():
			problem, err := infoField(p.addr, "rules", "rules_last_error")
			return 0, errors.Join(fmt.Errorf("the rules file is not active after %v: %s", rulesWithin, problem), err)
		case <-ticker.C:
		}
	}
}

// slowCheck matches an entry for CL.CHECK in the reply to SLOWLOG GET, as the function command returns it: an id, a Unix
// time, the microseconds and the words of the command.
var slowCheck = regexp.MustCompile(`(?im)^\d+\n\d{10,}\n(\d+)\ncl\.check$`)

// longestCheck returns the longest execution of CL.CHECK in the reply to SLOWLOG GET, in milliseconds.
func longestCheck(text string) (longest float64) {
	for _, m := range slowCheck.FindAllStringSubmatch(text, -1) {
		if usec, err := strconv.ParseFloat(m[1], 64); err == nil {
			longest = max(longest, usec/1000)
		}
	}
	return longest
}

func showReplacements(addr string, quiet, during []replacement, b *board) error {
	b.replacements("without a replacement", quiet)
	b.replacements("while a set is replaced", during)
	text, err := infoField(addr, "stats", "longest_gc_usec")
	if err != nil {
		return err
	}
	b.note("longest pause of the garbage collector, since the start of the server: %s us", text)
	b.note("longest latency of %d runs without a replacement: %.3f ms", len(quiet), longestOf(quiet, latency))
	b.atMost("100,000 limits: time until they decide", median(during, func(r replacement) float64 { return r.took.Seconds() }), rulesLoadBar.Seconds(), "s")
	b.atMost("longest latency during a replacement", longestOf(during, latency), rulesWaitBar.Seconds()*1000, "ms")
	b.atMost("longest execution during a replacement", longestOf(during, execution), rulesWaitBar.Seconds()*1000, "ms")
	return nil
}

// replacements prints the figures of runs.
func (b *board) replacements(what string, runs []replacement) {
	for _, r := range runs {
		b.note("%-24s %d req/s: p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms; sent up to %.1f ms late; longest execution %.3f ms; RSS %.0f MiB",
			what, rulesRate, r.p50, r.p99, r.p999, r.max, r.late, r.executing, mib(r.resident))
	}
}

func latency(r replacement) float64   { return r.max }
func execution(r replacement) float64 { return r.executing }

// longestOf returns the longest time of all runs.
func longestOf(runs []replacement, of func(replacement) float64) (longest float64) {
	for _, r := range runs {
		longest = max(longest, of(r))
	}
	return longest
}

// withRules starts a server with a rules file and with further arguments, calls use with the server and with the path of
// the file, and stops the server.
func withRules(text string, args []string, use func(p *process, path string) error) error {
	dir, err := os.MkdirTemp("", "throttled-rules-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "rules.yaml")
	if err = os.WriteFile(path, []byte(text), 0o600); err == nil {
		err = withServer(append([]string{"--rules", path}, args...), func(p *process) error { return use(p, path) })
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// checkApplies returns an error unless a CL.CHECK is admitted and the limits with the given names apply to it.
func checkApplies(addr, check string, names ...string) error {
	text, err := command(addr, check)
	if err != nil {
		return fmt.Errorf("%s: %w", check, err)
	}
	if !strings.HasPrefix(text, "0\n") {
		return fmt.Errorf("%s: the request is refused: %q", check, text)
	}
	for _, name := range names {
		if !strings.Contains(text, "\n"+name+"\n") {
			return fmt.Errorf("%s: limit %s does not apply: %q", check, name, text)
		}
	}
	return nil
}
