package clienttests

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cliMode is a mode of redis-cli. KEY in its arguments is a key that only this mode uses at the site, URL is that of the
// server, and FILE is a file with a script.
type cliMode struct {
	name    string
	args    string
	stdin   string // KEY is replaced
	lines   int    // number of lines after which redis-cli is killed; 0 if it exits on its own
	code    int    // exit code
	want    string // pattern of its output
	refused string // the reason why the server does not support the mode
	only    string // the only site at which the mode is run
}

// Patterns of decisions.
const (
	rawDecision = `^0\n16\n15\n-1\n60\n`
	charge      = "CL.THROTTLE KEY 15 1 60"
	noScripts   = "`ERR scripts are not supported`"
	noSync      = "the server is not a primary of Redis replication"
	scriptError = `ERR scripts are not supported: use CL\.THROTTLE`
)

// cliModes are the modes of redis-cli that are run at each site, except the Sentinel port.
var cliModes = []cliMode{
	{name: "CL.THROTTLE ...", args: charge, want: rawDecision},
	{name: "-2", args: "-2 " + charge, want: rawDecision},
	{name: "-3", args: "-3 " + charge, want: rawDecision},
	{name: "-c", args: "-c " + charge, want: rawDecision},
	{name: "--no-raw", args: "--no-raw " + charge, want: `^1\) \(integer\) 0\n2\) \(integer\) 16\n`},
	{name: "--csv", args: "--csv " + charge, want: `^0,16,15,-1,60\n$`},
	{name: "--json", args: "--json " + charge, want: `^\[0,16,15,-1,60\]\n$`},
	{name: "-D", args: "-d : " + charge, want: `^0:16:15:-1:60\n?$`},
	{name: "-e", args: "-e CL.THROTTLE KEY x 1 60", code: 1, want: `^\n?ERR invalid max_burst 'x': must be a 64-bit integer`},
	{name: "-r -i", args: "-r 3 -i 0.001 --csv CL.THROTTLE KEY 1 1 3600", want: `^0,2,1,-1,3600\n0,2,0,-1,7200\n1,2,0,3600,7200\n$`},
	{name: "-n 0", args: "-n 0 PING", want: `^PONG\n$`},
	{name: "-u", args: "-u URL PING", want: `^PONG\n$`},
	{name: "-x", args: "-x CL.THROTTLE KEY 15 1", stdin: "60", want: rawDecision},
	{name: "-X", args: "-X tag CL.THROTTLE tag 15 1 60", stdin: "KEY", want: rawDecision},
	{name: "--quoted-input", args: `--quoted-input ECHO "\x41"`, want: `^A\n$`},
	{name: "MULTI ... EXEC", stdin: "PING\nMULTI\n" + charge + "\nEXEC\n", want: `^PONG\nOK\nQUEUED\n0\n16\n15\n-1\n60\n`},
	{name: "--pipe", args: "--pipe", stdin: "PING\r\nCL.THROTTLE KEY 1 1 60\r\n", want: `errors: 0, replies: 2\n$`},
	{name: "--scan", args: "--scan --pattern redis-cli:*", want: `^(redis-cli:\S+\n)+$`},
	{name: "--bigkeys", args: "--bigkeys", want: `Sampled [1-9]\d* keys in the keyspace!`},
	{name: "--memkeys", args: "--memkeys", want: `Biggest +\S+ found .* has \d+ bytes`},
	{name: "--stat", args: "--stat -i 0.05", lines: 3, want: `\n\d+ +[\d.]+[BKMG] +\d+ +\d+ +\d+ \(\+\d+\) +\d+ *\n$`},
	{name: "--latency", args: "--latency -i 0.2", want: `^\d+ \d+ [\d.]+ \d+\n$`},
	{name: "--latency-history", args: "--latency-history -i 0.05", lines: 2, want: `^(\d+ \d+ [\d.]+ \d+\n){2}$`},
	{name: "--latency-dist", args: "--latency-dist -i 0.05", lines: 8, want: `milliseconds`},
	{name: "MONITOR", args: "MONITOR", lines: 1, want: `^OK\n$`},
	{name: "SUBSCRIBE", args: "SUBSCRIBE KEY", lines: 3, want: `^subscribe\nredis-cli:\S+\n1\n$`},
	{name: "PSUBSCRIBE", args: "-3 PSUBSCRIBE KEY", lines: 3, want: `^psubscribe\nredis-cli:\S+\n1\n$`},
	{name: "--cluster check", args: "--cluster check ADDRESS", only: siteCluster, want: `All 16384 slots covered`},
	{name: "--cluster info", args: "--cluster info ADDRESS", only: siteCluster, want: `\[OK\] \d+ keys in 1 masters`},
	{name: "--hotkeys", args: "--hotkeys", code: 1, want: `ERR An LFU maxmemory policy is not selected`, refused: "the server does not count accesses by key"},
	{name: "--eval", args: "--eval FILE KEY", want: scriptError, refused: noScripts},
	{name: "--ldb", args: "--ldb --eval FILE KEY", want: scriptError, refused: noScripts},
	{name: "--rdb", args: "--rdb FILE", code: 1, want: `SYNC with master failed: -ERR unknown command 'SYNC'`, refused: noSync + "; `throttled backup` writes a backup"},
	{name: "--functions-rdb", args: "--functions-rdb FILE", code: 1, want: `Failed requesting functions only RDB`, refused: noSync},
	{name: "--replica", args: "--replica", code: 1, want: `SYNC with master failed: -ERR unknown command 'SYNC'`, refused: noSync},
}

// sentinelModes are run at the Sentinel port.
var sentinelModes = []cliMode{
	{args: "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster", want: `^127\.\d+\.\d+\.\d\n6386\n$`},
	{args: "--json SENTINEL CKQUORUM mymaster", want: `OK 3 usable Sentinels`},
	{args: "-3 --json ROLE", want: `^\["sentinel",\["mymaster"\]\]\n$`},
	{args: "SUBSCRIBE +switch-master", lines: 3, want: `^subscribe\n\+switch-master\n1\n$`},
	{args: "--latency -i 0.2", want: `^\d+ \d+ [\d.]+ \d+\n$`},
}

// cliReport lists the modes of redis-cli.
func cliReport() string {
	var work, refused []string
	for _, m := range cliModes {
		name := "`" + m.name + "`"
		switch {
		case m.refused != "":
			refused = append(refused, "- "+name+": "+m.refused)
		case m.only != "":
			work = append(work, name+" ("+m.only+" only)")
		default:
			work = append(work, name)
		}
	}
	return "Modes of redis-cli that work: " + strings.Join(work, ", ") + ".\n\nModes of redis-cli that are not supported:\n\n" + strings.Join(refused, "\n") + "\n"
}

// runCLIModes runs redis-cli in each mode.
func runCLIModes(t *testing.T, s site) {
	modes := cliModes
	if s.name == siteSentinel {
		modes = sentinelModes
	}
	for i, mode := range modes {
		if mode.only == "" || mode.only == s.name {
			mode.run(t, s, i)
		}
	}
}

// run runs redis-cli in one mode.
func (m cliMode) run(t *testing.T, s site, i int) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script.lua")
	write(t, script, "return 1")
	at := &url.URL{Scheme: "redis", Host: s.address, Path: "/0"}
	key := strings.NewReplacer("KEY", s.key("redis-cli:"+string(rune('a'+i%26))+string(rune('a'+i/26))), "URL", at.String(), "FILE", script, "ADDRESS", s.address)
	var args []string
	for word := range strings.FieldsSeq(m.args) {
		args = append(args, key.Replace(word))
	}
	path := tool(t, "redis-cli", "redis-tools")
	all := append(append(s.redisArguments(t), "--no-auth-warning"), args...)
	if m.lines > 0 {
		// Without stdbuf, redis-cli would buffer the lines.
		lines := firstLines(t, m.lines, func(string) {}, tool(t, "stdbuf", "coreutils"), append([]string{"-oL", path}, all...)...)
		m.expect(t, outcome{out: strings.Join(lines, "\n") + "\n"})
		return
	}
	m.expect(t, runTool(t, key.Replace(m.stdin), path, all...))
}

// expect checks the output of redis-cli.
func (m cliMode) expect(t *testing.T, got outcome) {
	t.Helper()
	if !regexp.MustCompile(m.want).MatchString(got.out+got.err) || got.code != m.code {
		t.Errorf("redis-cli %s: got %+v, want exit code %d and a match of %s", m.args, got, m.code, m.want)
	}
}
