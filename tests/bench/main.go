// Command bench prints performance figures of the server, each next to its bar, which is the
// required value. It runs the real binary on a loopback port, and exits with 1 if a bar is
// missed. Some measurements compare throttled with a peer, which is any server on this machine
// that implements CL.THROTTLE.
//
//	bench compare   CPU and throughput at several pipeline depths, compared with a peer
//	bench tls       CPU of requests with TLS, compared with the same load without
//	bench idle      memory of idle connections, and one connection above the limit
//	bench hotkey    many connections on one key: exact admission
//	bench family    cost of each limiter command relative to CL.THROTTLE
//	bench check     cost of CL.CHECK relative to a CL.ALL of the same limits
//	bench ruleset   time to load 100,000 limits, and the longest delay of a decision while they replace others
//	bench groups    concurrent clients that charge and refund several limits in one call
//	bench fresh     from git clone to the first reply
//	bench table     decisions on one core and on two, compared with memory access
//	bench memory    memory of ten million keys, compared with a peer
//	bench flood     floods of new keys at maxmemory, which must not evict exhausted keys
//	bench resident  RSS under floods, compared with maxmemory
//	bench lower     lowering maxmemory to a tenth
//	bench clients   clients that exhaust memory, connections and password attempts
//	bench tail      latency with many keys compared with few
//	bench pauses    the longest delay of a decision by growth, expiry and saves
//	bench expiry    latency while millions of keys expire
//	bench snapshots saving and loading ten million keys, and latency during saves
//	bench crash     kill -9 during saves; flipped bits and truncation
//	bench replication  a cluster of three: compared with a replicated peer, and with a standalone server
//	bench joining      a cluster with a million keys: latencies during snapshots and while a node joins
//	bench elections    a cluster of three on an overloaded machine: elections, slow heartbeats
//	bench edges        the HTTP and gRPC servers: compared with throttlecrab and envoyproxy/ratelimit, and under attack
//	bench attacked     the latencies of HTTP and gRPC clients beside hostile ones, which is a part of edges
//	bench overload     three times the load that the server can answer for a minute: goodput, refusals, latencies relative to
//	                   those before, and the time until it has recovered; standalone, and the leader of a cluster, which must
//	                   stay the leader; each with and, for 5 seconds, without the option for it; needs root
//	bench sidecar      local decisions of sidecars on hot, exhausted and shared keys
//	bench sidecar-cold CPU of a server and of a cluster for requests on cold keys, directly and through sidecars
//	bench abuse        the rows of docs/security.md: other clients beside an abuse, and resources afterwards; needs root
//	bench all       all measurements; compare, memory and replication include the peer only with -peer; abuse and overload are skipped
//	                if -rows selects none of their rows
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// settings holds the flags of all subcommands.
type settings struct {
	peer    string
	rounds  int
	conns   int
	idle    int
	callers int
	lasting time.Duration
	groups  time.Duration
	rows    string

	realTime bool
	overload time.Duration
}

// selects reports whether the flag -rows selects a row.
func (s *settings) selects(row string) bool {
	return s.rows == "" || slices.Contains(strings.Split(s.rows, ","), row)
}

// selectsAny reports whether the flag -rows selects one of the rows of a measurement, or the measurement has no rows.
func (s *settings) selectsAny(rows []string) bool {
	return len(rows) == 0 || slices.ContainsFunc(rows, s.selects)
}

// rowsOf returns the rows of a measurement, or nil if it is not divided into rows.
func rowsOf(measurement string) (rows []string) {
	switch measurement {
	case "abuse":
		for _, row := range abuses {
			rows = append(rows, row.row)
		}
	case "overload":
		for _, row := range overloadRows {
			rows = append(rows, row.kind)
		}
	}
	return rows
}

var errMissed = errors.New("a bar was missed")

var measurements = []struct {
	name string
	run  func(s settings, b *board) error
}{
	{"compare", compare},
	{"tls", costTLS},
	{"idle", idle},
	{"hotkey", hotKey},
	{"family", compareFamily},
	{"check", compareCheck},
	{"ruleset", replaceRules},
	{"groups", groups},
	{"fresh", fresh},
	{"table", table},
	{"memory", memory},
	{"flood", flood},
	{"resident", resident},
	{"lower", lower},
	{"clients", clientFloods},
	{"tail", tail},
	{"pauses", longestPauses},
	{"expiry", expiry},
	{"snapshots", snapshots},
	{"crash", crash},
	{"replication", replication},
	{"joining", joining},
	{"elections", elections},
	{"edges", edges},
	{"attacked", attacked},
	{"overload", overloaded},
	{"sidecar", measureSidecars},
	{"sidecar-cold", measureColdSidecars},
	{"abuse", endureAbuse},
}

// repository is the path of the repository root, relative to the directory of this
// program. Run the program with go run -C tests/bench.
const repository = "../.."

func main() {
	err := os.Chdir(repository) // the programs to measure are built there
	if err == nil {
		err = run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&s.peer, "peer", "", "host:port of a server on this machine that implements CL.THROTTLE, such as Redis with redis-cell")
	flags.IntVar(&s.rounds, "rounds", 3, "rounds, of which the median is used")
	flags.IntVar(&s.conns, "conns", 50, "connections of compare")
	flags.IntVar(&s.idle, "idle", 10000, "connections of idle")
	flags.IntVar(&s.callers, "callers", 64, "connections of hotkey")
	flags.DurationVar(&s.lasting, "lasting", 10*time.Second, "duration of hotkey")
	flags.DurationVar(&s.groups, "groups", 30*time.Second, "duration of groups")
	flags.StringVar(&s.rows, "rows", "", "comma-separated rows of abuse, such as F71,F72, or of overload: standalone, leader; all if empty")
	flags.DurationVar(&s.overload, "overload", time.Minute, "duration of an overload")
	flags.BoolVar(&s.realTime, "realtime", false, "abuse: run servers with a real-time priority, on a busy machine")
	if len(args) == 0 {
		args = []string{"all"}
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	b := &board{}
	known := false
	for _, m := range measurements {
		if args[0] != m.name && args[0] != "all" {
			continue
		}
		known = true
		if args[0] == "all" && !s.selectsAny(rowsOf(m.name)) {
			continue
		}
		fmt.Printf("\n%s\n", strings.ToUpper(m.name))
		if err := m.run(s, b); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	switch {
	case !known:
		return fmt.Errorf("there is no measurement %q", args[0])
	case b.missed > 0:
		return errMissed
	}
	return nil
}

// board prints figures next to their bars, and counts missed bars.
type board struct {
	missed int
	prefix string // of each line
}

func (b *board) atMost(what string, got, bar float64, unit string) {
	b.show(what, got, "<=", bar, unit, got <= bar)
}

func (b *board) atLeast(what string, got, bar float64, unit string) {
	b.show(what, got, ">=", bar, unit, got >= bar)
}

func (b *board) show(what string, got float64, relation string, bar float64, unit string, reached bool) {
	verdict := "ok"
	if !reached {
		verdict = "MISSED"
		b.missed++
	}
	fmt.Printf("  %-44s %12.2f %s %.2f %-5s %s\n", b.prefix+what, got, relation, bar, unit, verdict)
}

func (b *board) note(format string, args ...any) {
	fmt.Printf("  "+b.prefix+format+"\n", args...)
}
