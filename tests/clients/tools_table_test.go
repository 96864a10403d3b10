package clienttests

import (
	"regexp"
	"strings"
	"testing"
)

// clientTool is a tool that connects to the server.
type clientTool struct {
	name    string
	version func(t *testing.T) string
	rules   string                     // permissions of the user as which the tool logs in
	run     func(t *testing.T, s site) // nil if the tool is not tested
	lacks   map[string]string          // sites that the tool does not support, and further limits, with the reason
}

// clientTools are all tools of the matrix.
var clientTools = []clientTool{
	{
		name: "redis-cli", version: versionOf("redis-cli", "--version"), rules: "~* &* +@all", run: runCLIModes,
	},
	{
		name: "redis-benchmark", version: versionOf("redis-benchmark", "--version"), rules: "~* +cl.throttle +ping +config|get", run: runBenchmark,
		lacks: map[string]string{
			siteSentinel: "the tool does not ask a Sentinel for the leader",
			"--cluster":  "the tool refuses clusters with one master; without the option, it uses the cluster port of the leader",
		},
	},
	{
		name: "redis_exporter", version: versionOf("prometheus-redis-exporter", "-version"),
		rules: "+ping +info +config|get +client|setname +client|list +slowlog +latency|latest +dbsize", run: runExporter,
	},
	{
		name: "memtier_benchmark", version: func(*testing.T) string { return "-" },
		lacks: map[string]string{"all": "not tested: Debian 12 has no package of the tool"},
	},
}

// number matches a version.
var number = regexp.MustCompile(`\d+\.\d+\.\d+`)

// versionOf returns a function that runs a program which prints its version.
func versionOf(program, option string) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		got := runTool(t, "", tool(t, program, "redis-tools prometheus-redis-exporter"), option)
		return number.FindString(got.out + got.err)
	}
}

// cell returns the result of a tool with a site.
func (c clientTool) cell(name string, passed map[string]bool) string {
	switch {
	case c.run == nil || c.lacks[name] != "":
		return "-"
	case passed[c.name+name]:
		return "pass"
	}
	return "**fail**"
}

// runBenchmark runs redis-benchmark with the limiter command, with both versions of the protocol.
func runBenchmark(t *testing.T, s site) {
	path := tool(t, "redis-benchmark", "redis-tools")
	for _, args := range []string{"-q -t ping -n 2000 -P 4", "-q -n 2000 -P 4 CL.THROTTLE KEY 15 1 3600", "-3 -q -n 2000 -P 4 CL.THROTTLE KEY 15 1 3600"} {
		words := strings.Fields(strings.ReplaceAll(args, "KEY", s.key("benchmark")))
		got := runTool(t, "", path, append(s.redisArguments(t), words...)...)
		if got.code != 0 || complaint.MatchString(got.out+got.err) {
			t.Errorf("redis-benchmark %s reports a problem: %+v", args, got)
		}
	}
	got := runTool(t, "", path, append(s.redisArguments(t), "--cluster", "-q", "-n", "10", "-t", "ping")...)
	if want := "Invalid cluster: 1 node(s)"; s.name == siteCluster && (got.code == 0 || !strings.Contains(got.out+got.err, want)) {
		t.Errorf("redis-benchmark --cluster: got %+v, want %q", got, want)
	}
}

// key returns a key that only one tool uses at one site.
func (s site) key(name string) string { return strings.ReplaceAll(name+":"+s.name, " ", "-") }
