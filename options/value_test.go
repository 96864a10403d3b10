package options

import (
	"strings"
	"testing"
)

func TestValue_Set(t *testing.T) {
	const integer = "argument couldn't be parsed into an integer"
	const memory = "argument must be a memory value"
	const share = "argument must be a memory or percent value"
	const save = "Invalid save parameters"
	tests := []struct {
		option, text string
		want         string // text of the value, or of the error
	}{
		{"port", "0", "0"},
		{"port", "65535", "65535"},
		{"port", "65536", "argument must be between 0 and 65535 inclusive"},
		{"port", "-1", "argument must be between 0 and 65535 inclusive"},
		{"port", "", integer},
		{"port", "abc", integer},
		{"port", "07", integer},
		{"port", "+7", integer},
		{"port", "-0", integer},
		{"port", " 7", integer},
		{"port", "7.0", integer},
		{"port", "0x10", integer},
		{"port", "99999999999999999999", integer},
		{"maxclients", "0", "argument must be between 1 and 2147483647 inclusive"},
		{"proto-max-args", "1048577", "argument must be between 1 and 1048576 inclusive"},
		{"window-log-max-entries", "0", "argument must be between 1 and 65536 inclusive"},
		{"window-log-max-entries", "65537", "argument must be between 1 and 65536 inclusive"},

		{"timeout", "2147483647", "2147483647"},
		{"timeout", "2147483648", "argument must be between 0 and 2147483647 inclusive"},
		{"timeout", "10s", integer},
		{"slowlog-log-slower-than", "-2", "argument must be between -1 and 9223372036854775 inclusive"},
		{"slowlog-log-slower-than", "9223372036854775", "9223372036854775"},
		{"latency-monitor-threshold", "-1", "argument must be between 0 and 2147483647 inclusive"},

		{"maxmemory", "0", "0"},
		{"maxmemory", "100", "100"},
		{"maxmemory", "100b", "100"},
		{"maxmemory", "1k", "1000"},
		{"maxmemory", "1kb", "1024"},
		{"maxmemory", "2M", "2000000"},
		{"maxmemory", "2Mb", "2097152"},
		{"maxmemory", "3g", "3000000000"},
		{"maxmemory", "3GB", "3221225472"},
		{"maxmemory", "8589934591gb", "9223372035781033984"},
		{"maxmemory", "8589934592gb", memory},
		{"maxmemory", "9223372036854775808", memory},
		{"maxmemory", "-1", memory},
		{"maxmemory", "", memory},
		{"maxmemory", "kb", memory},
		{"maxmemory", "1.5k", memory},
		{"maxmemory", "1 kb", memory},
		{"maxmemory", "1tb", memory},
		{"maxmemory", "1bk", memory},
		{"maxmemory", "1kbb", memory},
		{"maxmemory", "1\u212a", memory}, // KELVIN SIGN, whose lower case is k
		{"maxmemory", "\xff", memory},
		{"proto-max-bulk-len", "1023", "argument must be between 1024 and 536870912 inclusive"},
		{"proto-max-bulk-len", "513mb", "argument must be between 1024 and 536870912 inclusive"},
		{"client-query-buffer-limit", "1", "argument must be between 16384 and 1073741824 inclusive"},

		{"maxmemory-clients", "0", "0"},
		{"maxmemory-clients", "100mb", "104857600"},
		{"maxmemory-clients", "5%", "5%"},
		{"maxmemory-clients", "100%", "100%"},
		{"maxmemory-clients", "0%", "0"},
		{"maxmemory-clients", "101%", "percentage argument must be less or equal to 100"},
		{"maxmemory-clients", "-1", share},
		{"maxmemory-clients", "-1%", share},
		{"maxmemory-clients", "05%", share},
		{"maxmemory-clients", "1.5%", share},
		{"maxmemory-clients", "%", share},
		{"maxmemory-clients", "1mb%", share},
		{"maxmemory-clients", "5x", share},
		{"client-reply-buffer-limit", "65535", "argument must be between 65536 and 1073741824 inclusive"},

		{"node-id", "n-1", "n-1"},
		{"node-id", "", ""},
		{"node-id", "-n", "argument must be at most 40 letters, digits and hyphens"},
		{"node-id", "n-", "argument must be at most 40 letters, digits and hyphens"},
		{"node-id", "n.1", "argument must be at most 40 letters, digits and hyphens"},
		{"cluster-id", strings.Repeat("a", 41), "argument must be at most 40 letters, digits and hyphens"},
		{"raft-addr", "", ""},
		{"raft-addr", "[::1]:6382", "[::1]:6382"},
		{"raft-addr", "localhost", `argument must be host:port, not localhost`},
		{"raft-addr", "localhost:0", `argument must be host:port, not localhost:0`},
		{"raft-addr", "*:6382", `argument must be host:port, not *:6382`},
		{"raft-addr", "localhost:65536", `argument must be host:port, not localhost:65536`},
		{"join", " a:1  b:2 ", "a:1 b:2"},
		{"join", "a:1 b", `argument must be host:port, not b`},
		{"bootstrap", " n1=a:1  n2=b:2 ", "n1=a:1 n2=b:2"},
		{"bootstrap", "a:1", `argument must be NAME=host:port, not a:1`},
		{"bootstrap", "n1=a", `argument must be host:port, not a`},
		{"bootstrap", "n_1=a:1", `argument must be NAME=host:port, not n_1=a:1`},
		{"bootstrap", "n1=:1", `argument must have a host that other nodes can reach, not n1=:1`},
		{"bootstrap", "n1=0.0.0.0:1", `argument must have a host that other nodes can reach, not n1=0.0.0.0:1`},
		{"bootstrap", "n1=[::]:1", `argument must have a host that other nodes can reach, not n1=[::]:1`},
		{"raft-addr", "0.0.0.0:1", "0.0.0.0:1"},
		{"bootstrap", "n1=a:1 n1=b:1", "argument contains a node or an address twice"},
		{"bootstrap", "n1=a:1 n2=a:1", "argument contains a node or an address twice"},

		{"protected-mode", "YES", "yes"},
		{"protected-mode", "no", "no"},
		{"protected-mode", "true", "argument must be 'yes' or 'no'"},
		{"protected-mode", "1", "argument must be 'yes' or 'no'"},
		{"protected-mode", "", "argument must be 'yes' or 'no'"},

		{"loglevel", "Warning", "warning"},
		{"loglevel", "loud", "argument(s) must be one of the following: debug, verbose, notice, warning"},
		{"maxmemory-policy", "Evict-Smallest-Debt", "evict-smallest-debt"},
		{"maxmemory-policy", "NOEVICTION", "noeviction"},
		{"maxmemory-policy", "volatile-ttl", "argument(s) must be one of the following: noeviction, evict-smallest-debt (with LRU, LFU or random eviction a flood of new keys would reset limits)"},

		{"edge-attributes", " a=b\t c=d ", "a=b c=d"},
		{"trusted-proxies", "192.0.2.1 10.0.0.0/8  2001:db8::/32 ::1", "192.0.2.1/32 10.0.0.0/8 2001:db8::/32 ::1/128"},
		{"trusted-proxies", "", ""},
		{"trusted-proxies", "10.0.0.1/8", "argument must be networks such as 10.0.0.0/8, not 10.0.0.1/8"},
		{"trusted-proxies", "::1 proxy", "argument must be networks such as 10.0.0.0/8, not proxy"},
		{"ratelimit-headers", "X-RateLimit  ratelimit", "x-ratelimit ratelimit"},
		{"ratelimit-headers", "", ""},
		{"ratelimit-headers", "draft", "argument must be a list of ratelimit, x-ratelimit, each at most once, not draft"},
		{"ratelimit-headers", "ratelimit ratelimit", "argument must be a list of ratelimit, x-ratelimit, each at most once, not ratelimit"},
		{"bind", "*", "*"},
		{"bind", " 10.0.0.1   ::1\tfe80::1%eth0 ", "10.0.0.1 ::1 fe80::1%eth0"},
		{"bind", "db-1.example.com a_b", "db-1.example.com a_b"},
		{"bind", "", "argument must be at least one address"},
		{"bind", "127.0.0.1:6380", "argument must be addresses, not 127.0.0.1:6380"},
		{"bind", "256.0.0.1", "argument must be addresses, not 256.0.0.1"},
		{"bind", "6380", "argument must be addresses, not 6380"},
		{"bind", "-::1", "argument must be addresses, not -::1"},
		{"bind", "a\x00b", `argument must be addresses, not "a\x00b"`},

		{"dir", "/a b", "/a b"},
		{"dir", "", "argument must be the path of a directory"},
		{"dbfilename", "a.thr", "a.thr"},
		{"dbfilename", "", "argument can't be a path, just a filename"},
		{"dbfilename", "a/b", "argument can't be a path, just a filename"},
		{"dbfilename", "..", "argument can't be a path, just a filename"},

		{"save", "", ""},
		{"save", "3600 1", "3600 1"},
		{"save", " 3600 1\t300  100 ", "3600 1 300 100"},
		{"save", "1 0", "1 0"},
		{"save", "01 +1", "1 1"},
		{"save", "2147483647 2147483647", "2147483647 2147483647"},
		{"save", "2147483648 1", save},
		{"save", "1 2147483648", save},
		{"save", "0 1", save},
		{"save", "-1 1", save},
		{"save", "1 -1", save},
		{"save", "1", save},
		{"save", "1 1 1", save},
		{"save", "1 x", save},
		{"save", "1.5 1", save},
		{"snapshot-fallback", "YES", "yes"},
		{"snapshot-fallback", "maybe", "argument must be 'yes' or 'no'"},
		{"stop-writes-on-bgsave-error", "yes", "this server continues when it cannot save"},
		{"databases", "1", "1"},
		{"databases", "16", "this server has one database"},
		{"databases", "0", "argument must be between 1 and 2147483647 inclusive"},
		{"databases", "x", integer},
		{"appendonly", "NO", "no"},
		{"appendonly", "yes", "this server has no append-only file"},
		{"appendonly", "maybe", "argument must be 'yes' or 'no'"},
		{"replica-read-only", "yes", "yes"},
		{"replica-read-only", "no", "this server has no writable replicas"},
	}
	for _, tt := range tests {
		o := Default()
		v := find(tt.option).field(&o)
		err := v.Set(tt.text)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s %q:\n got %s\nwant %s", tt.option, tt.text, got, tt.want)
		}
	}
}

// TestSetLeavesTheOldList checks that Set does not modify the slices of earlier values.
func TestSetLeavesTheOldList(t *testing.T) {
	for name, lists := range map[string][2]string{"bind": {"127.0.0.1", "10.0.0.1"}, "save": {"60 1 300 5", "9 9 8 8"}} {
		old := Default()
		if err := find(name).field(&old).Set(lists[0]); err != nil {
			t.Fatal(err)
		}
		next := old
		if err := find(name).field(&next).Set(lists[1]); err != nil {
			t.Fatal(err)
		}
		wantText(t, &old, name, lists[0])
	}
}

func FuzzValue(f *testing.F) {
	for _, text := range []string{"", "0", "-1", "yes", "1kb", "18446744073709551615", "* ::1", "\x00", "debug", "gb", "3600 1 300 100"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range table {
			o := Default()
			v := r.field(&o)
			if v.Set(text) != nil {
				continue
			}
			shown := v.String()
			if err := v.Set(shown); err != nil || v.String() != shown {
				t.Errorf("%s: Set(%q) stores %q, and Set of that text stores %q, error %v; want the same text", r.name, text, shown, v.String(), err)
			}
			if o.Validate() != nil && o.conflict() == nil {
				t.Errorf("%s: Set accepts %q, but Validate returns %v", r.name, text, o.Validate())
			}
			if r.form == formYesNo && !strings.Contains("yes no", shown) {
				t.Errorf("%s: %q is stored as %q, want yes or no", r.name, text, shown)
			}
		}
	})
}
