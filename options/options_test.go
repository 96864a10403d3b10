package options

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// otherValue maps each option with more than one valid value to a value other than its default.
// It is the input of the tests that iterate over the table.
var otherValue = map[string]string{
	"bind":                      "::1 localhost",
	"port":                      "7000",
	"protected-mode":            "no",
	"requirepass-file":          "testdata/password",
	"aclfile":                   "/etc/throttled/users.acl",
	"requirepass":               "se\"cr et\n#\\\x00\xff'",
	"tcp-keepalive":             "0",
	"timeout":                   "300",
	"tls-port":                  "6390",
	"tls-cluster-port":          "6394",
	"tls-sentinel-port":         "26390",
	"tls-leader-port":           "6396",
	"tls-http-port":             "6391",
	"tls-grpc-port":             "6393",
	"tls-cert-file":             "/etc/tls/server.pem",
	"tls-key-file":              "/etc/tls/key.pem",
	"tls-ca-cert-file":          "/etc/tls/ca.pem",
	"tls-revoked-file":          "/etc/tls/revoked",
	"tls-auth-clients":          "optional",
	"tls-auth-clients-user":     "CN",
	"tls-protocols":             "TLSv1.3",
	"maxclients":                "1",
	"client-query-buffer-limit": "2097152",
	"proto-max-bulk-len":        "1024",
	"proto-max-inline-len":      "2048",
	"proto-max-args":            "1048576",
	"command-timeout":           "3",
	"overload-target":           "5",
	"write-timeout":             "4",
	"leader-wait":               "60000",
	"shutdown-timeout":          "0",
	"window-log-max-entries":    "65536",
	"rules":                     "/etc/throttled/rules.yaml",
	"http-port":                 "6381",
	"grpc-port":                 "6383",
	"edge-domain":               "shop",
	"edge-attributes":           "user=verified:header:X-User key=header:X-Key",
	"trusted-proxies":           "10.0.0.0/8 ::/0",
	"http-hosts":                "limits.example.com",
	"ratelimit-headers":         "x-ratelimit",
	"x-ratelimit-reset":         "epoch",
	"forwarded-header":          "forwarded",
	"http-proxy-protocol":       "yes",
	"grpc-negative-hits":        "yes",
	"rls-headers":               "yes",
	"rls-metadata":              "yes",
	"maxmemory":                 "9223372036854775807",
	"maxmemory-policy":          "evict-smallest-debt",
	"maxmemory-clients":         "5%",
	"client-reply-buffer-limit": "65536",
	"client-receive-buffer":     "0",
	"auth-failures-per-minute":  "0",
	"acllog-max-len":            "0",
	"dir":                       "/var/lib/thr ottled",
	"dbfilename":                "other.thr",
	"save":                      "3600 1 300 100 1 0",
	"snapshot-fallback":         "yes",
	"data-dir":                  "/var/lib/throttled",
	"replication":               "async",
	"raft-fsync":                "no",
	"raft-heartbeat":            "100",
	"cluster-id":                "eu-1",
	"node-id":                   "n1",
	"raft-addr":                 "127.0.0.1:6382",
	"raft-advertise":            "node-1.example:6382",
	"bootstrap":                 "n1=127.0.0.1:6382 n2=[::1]:6482",
	"join":                      "127.0.0.1:6382 node-2.example:6382",
	"raft-tls-cert":             "/etc/throttled/n1.pem",
	"raft-tls-key":              "/etc/throttled/n1-key.pem",
	"raft-tls-ca":               "/etc/throttled/ca.pem",
	"raft-tls-revoked":          "/etc/throttled/revoked",
	"raft-insecure":             "yes",
	"announce-host":             "node-1.example",
	"cluster-port":              "0",
	"sentinel-port":             "65535",
	"leader-port":               "1",
	"sentinel-master":           "limits",
	"upstream":                  "127.0.0.1:6380 [::1]:6380",
	"upstream-user":             "sidecar",
	"upstream-password-file":    "/etc/throttled/password",
	"upstream-tls":              "yes",
	"upstream-tls-ca-cert-file": "/etc/tls/ca.pem",
	"upstream-tls-cert-file":    "/etc/tls/sidecar.pem",
	"upstream-tls-key-file":     "/etc/tls/sidecar-key.pem",
	"upstream-tls-server-name":  "limits.example",
	"upstream-timeout":          "20",
	"upstream-lease":            "500", "upstream-leases": "relaxed", "upstream-lessee": "one",
	"upstream-away":             "open",
	"upstream-share":            "1/3",
	"loglevel":                  "debug",
	"logfile":                   "/var/log/throttled.log",
	"log-format":                "json",
	"slowlog-log-slower-than":   "-1",
	"slowlog-max-len":           "0",
	"latency-monitor-threshold": "100",
	"metrics-max-limits":        "100000",
	"otlp-endpoint":             "http://127.0.0.1:4318",
	"otlp-sample-percent":       "0",
}

// singleValued lists the options with one valid value.
var singleValued = []string{"databases", "appendonly", "replica-read-only", "stop-writes-on-bgsave-error"}

func TestTable_HasAValueForEachTest(t *testing.T) {
	for _, r := range table {
		if _, ok := otherValue[r.name]; ok == slices.Contains(singleValued, r.name) {
			t.Errorf("option %s must be in exactly one of otherValue and singleValued", r.name)
		}
	}
	if len(otherValue)+len(singleValued) != len(table) {
		t.Errorf("otherValue and singleValued have %d options, the table has %d", len(otherValue)+len(singleValued), len(table))
	}
}

func TestTable_EachFieldHasOneRow(t *testing.T) {
	rows := map[string]int{}
	for _, r := range table {
		rows[fieldOf(t, &r)]++
	}
	fields := reflect.TypeFor[Options]()
	exported := 0
	for i := range fields.NumField() {
		f := fields.Field(i)
		if !f.IsExported() {
			continue // derived from an option
		}
		if exported++; rows[f.Name] != 1 {
			t.Errorf("field %s is bound to %d rows, want 1", f.Name, rows[f.Name])
		}
	}
	if len(rows) != exported {
		t.Errorf("the rows are bound to %d of %d fields, want all", len(rows), exported)
	}
}

// fieldOf returns the name of the field that a row is bound to. To find it, fieldOf compares
// the pointer in the value of the row with the addresses of the fields.
func fieldOf(t *testing.T, r *row) string {
	t.Helper()
	var o Options
	v := reflect.ValueOf(r.field(&o))
	for v.Kind() == reflect.Struct && v.Type().Field(0).Name != "p" {
		v = v.Field(0).Elem() // the value that is embedded in the types singleValue and withReason
	}
	target := v.Field(0).Pointer()
	all := reflect.ValueOf(&o).Elem()
	for i := range all.NumField() {
		if all.Field(i).Addr().Pointer() == target {
			return all.Type().Field(i).Name
		}
	}
	t.Fatalf("%s is not bound to any field", r.name)
	return ""
}

// TestTable_NamesSpellTheirFields checks that no row is bound to the field of another option.
func TestTable_NamesSpellTheirFields(t *testing.T) {
	for _, r := range table {
		name := strings.ReplaceAll(r.name, "-", "")
		if field := fieldOf(t, &r); !strings.EqualFold(field, name) {
			t.Errorf("option %s is bound to the field %s, want the field of the same name", r.name, field)
		}
	}
}

func TestTable_IsInOrder(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	groups := []string{network, security, limits, edges, memory, snapshots, replication, upstream, diagnostics, compatibility}
	at := 0
	for i, r := range table {
		if !shape.MatchString(r.name) {
			t.Errorf("%q is not a valid name", r.name)
		}
		if find(strings.ToUpper(r.name)) != &table[i] {
			t.Errorf("find, with the name in upper case, does not return the row of %s", r.name)
		}
		if r.form == "" || r.help == "" || strings.HasSuffix(r.help, ".") {
			t.Errorf("option %s: the form %q or the help %q is empty, or the help ends in a period", r.name, r.form, r.help)
		}
		g := slices.Index(groups, r.group)
		if g < at {
			t.Errorf("%s: group %q is out of order", r.name, r.group)
		}
		at = g
	}
}

func TestTable_RoundTrips(t *testing.T) {
	for _, r := range table {
		t.Run(r.name, func(t *testing.T) {
			for _, text := range []string{r.get(&Options{Bind: []string{"*"}, Dir: "/", DBFilename: "x"}), find(r.name).get(ptr(Default())), otherValue[r.name]} {
				o := Default()
				if r.field(&o).Set(text) != nil {
					continue // the zero value may be invalid, and the options in singleValued have only one valid value
				}
				if got := r.get(&o); got != text {
					t.Errorf("after Set(%q) the value is %q, want the same text", text, got)
				}
				before := o
				if err := r.field(&o).Set(r.get(&o)); err != nil {
					t.Errorf("Set(String()) of %q: %v", text, err)
				}
				wantSame(t, &o, &before)
			}
		})
	}
}

func TestTable_OtherValuesAreLegal(t *testing.T) {
	defaults := Default()
	for name, text := range otherValue {
		o := Default()
		r := find(name)
		if err := r.field(&o).Set(text); err != nil {
			t.Errorf("otherValue of %s, %q, is invalid: %v", name, text, err)
		}
		if r.get(&o) == r.get(&defaults) {
			t.Errorf("otherValue of %s, %q, is the default", name, text)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestDefault(t *testing.T) {
	o := Default()
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults are invalid: %v", err)
	}
	want := map[string]string{
		"bind": "127.0.0.1", "port": "6380", "protected-mode": "yes", "requirepass": "", "requirepass-file": "", "aclfile": "", "tcp-keepalive": "60",
		"timeout": "0", "maxclients": "10000", "client-query-buffer-limit": "1048576", "proto-max-bulk-len": "524288",
		"proto-max-inline-len": "65536", "proto-max-args": "1024", "command-timeout": "10", "write-timeout": "10", "leader-wait": "900", "overload-target": "0",
		"shutdown-timeout": "10", "window-log-max-entries": "8192", "rules": "",
		"tls-port": "0", "tls-cluster-port": "0", "tls-sentinel-port": "0", "tls-leader-port": "0", "tls-http-port": "0", "tls-grpc-port": "0",
		"tls-cert-file": "", "tls-key-file": "", "tls-ca-cert-file": "", "tls-revoked-file": "", "tls-auth-clients": "yes", "tls-auth-clients-user": "off", "tls-protocols": "TLSv1.2 TLSv1.3",
		"http-port": "0", "grpc-port": "0", "edge-domain": "", "edge-attributes": "", "trusted-proxies": "127.0.0.0/8 ::1/128", "http-hosts": "",
		"ratelimit-headers": "ratelimit x-ratelimit", "x-ratelimit-reset": "delta", "forwarded-header": "x-forwarded-for", "http-proxy-protocol": "no", "grpc-negative-hits": "no", "rls-headers": "no", "rls-metadata": "no",
		"maxmemory": "0", "maxmemory-policy": "noeviction",
		"maxmemory-clients": "268435456", "client-reply-buffer-limit": "67108864", "client-receive-buffer": "262144", "auth-failures-per-minute": "20", "acllog-max-len": "128", "dir": ".", "dbfilename": "dump.thr",
		"save": "", "snapshot-fallback": "no", "stop-writes-on-bgsave-error": "no", "loglevel": "notice", "logfile": "", "log-format": "text", "slowlog-log-slower-than": "10000", "slowlog-max-len": "128",
		"data-dir": "", "replication": "sync", "raft-fsync": "yes", "raft-heartbeat": "250", "cluster-id": "", "node-id": "", "raft-addr": "", "raft-advertise": "",
		"bootstrap": "", "join": "", "raft-tls-cert": "", "raft-tls-key": "", "raft-tls-ca": "", "raft-tls-revoked": "", "raft-insecure": "no", "announce-host": "",
		"cluster-port": "6384", "sentinel-port": "26380", "sentinel-master": "mymaster", "leader-port": "6386",
		"upstream": "", "upstream-user": "", "upstream-password-file": "", "upstream-tls": "no", "upstream-tls-ca-cert-file": "", "upstream-tls-cert-file": "", "upstream-tls-key-file": "",
		"upstream-tls-server-name": "", "upstream-timeout": "50", "upstream-leases": "strict", "upstream-lease": "1000", "upstream-lessee": "", "upstream-away": "closed", "upstream-share": "1",
		"latency-monitor-threshold": "0", "metrics-max-limits": "1000", "otlp-endpoint": "", "otlp-sample-percent": "1", "databases": "1", "appendonly": "no", "replica-read-only": "yes",
	}
	for _, r := range table {
		text, ok := want[r.name]
		if !ok {
			t.Errorf("the test has no default for option %s", r.name)
		}
		wantText(t, &o, r.name, text)
	}
}

func TestClientMemory(t *testing.T) {
	for _, tt := range []struct {
		text      string
		maxMemory int64
		want      int64
	}{
		{"0", 1 * gib, 0}, {"1", 0, 128 * kib}, {"1gb", 0, gib}, {"5%", 100 * mib, 5 * mib},
		{"100%", gib, gib / 100 * 100}, {"1%", 1 * mib, 128 * kib}, {"5%", 0, 0}, {"0%", gib, 0},
	} {
		o := Default()
		o.MaxMemory = tt.maxMemory
		if err := find("maxmemory-clients").field(&o).Set(tt.text); err != nil {
			t.Errorf("Set of maxmemory-clients to %s: %v", tt.text, err)
		}
		if got := o.ClientMemory(); got != tt.want {
			t.Errorf("ClientMemory with maxmemory-clients %s and maxmemory %d = %d, want %d", tt.text, tt.maxMemory, got, tt.want)
		}
	}
}

// member sets the options of a cluster node.
func member(o *Options) {
	o.ClusterID, o.NodeID, o.RaftAddr, o.DataDir = "c", "n1", "a:1", "d"
	o.Bootstrap = []Node{{"n1", "a:1"}, {"n2", "b:1"}}
	o.RaftTLSCert, o.RaftTLSKey, o.RaftTLSCA = "cert", "key", "ca"
}

func TestCheckReplication(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(o *Options)
		want   string // "" for no error
	}{
		{"standalone", func(*Options) {}, ""},
		{"durable", func(o *Options) { o.DataDir = "d" }, ""},
		{"member", member, ""},
		{"joining", func(o *Options) { member(o); o.Bootstrap, o.Join = nil, []string{"b:1"} }, ""},
		{"insecure", func(o *Options) {
			member(o)
			o.RaftInsecure, o.RaftTLSCert, o.RaftTLSKey, o.RaftTLSCA = true, "", "", ""
		}, ""},
		{"save with data-dir", func(o *Options) { o.DataDir, o.Save = "d", []SavePoint{{time.Second, 1}} }, "save and data-dir exclude each other: with data-dir the state is in the log"},
		{"raft-addr without cluster-id", func(o *Options) { o.RaftAddr = "a:1" }, "raft-addr, bootstrap and join require cluster-id"},
		{"no node id", func(o *Options) { member(o); o.NodeID = "" }, "cluster-id requires node-id, raft-addr and data-dir"},
		{"no data directory", func(o *Options) { member(o); o.DataDir = "" }, "cluster-id requires node-id, raft-addr and data-dir"},
		{"bootstrap and join", func(o *Options) { member(o); o.Join = []string{"b:1"} }, "bootstrap and join exclude each other: a node forms a cluster or joins one"},
		{"neither, as on a restart", func(o *Options) { member(o); o.Bootstrap = nil }, ""},
		{"not in the bootstrap list", func(o *Options) { member(o); o.RaftAdvertise = "c:1" }, "bootstrap must contain this node, with its node-id and its raft-advertise or raft-addr"},
		{"no certificate", func(o *Options) { member(o); o.RaftTLSKey = "" }, "cluster-id requires raft-tls-cert, raft-tls-key and raft-tls-ca: create the files with throttled certs, or set raft-insecure if all nodes are on loopback"},
		{"insecure with a revocation list", func(o *Options) {
			member(o)
			o.RaftInsecure, o.RaftTLSCert, o.RaftTLSKey, o.RaftTLSCA, o.RaftTLSRevoked = true, "", "", "", "revoked"
		}, "raft-insecure and certificates exclude each other"},
		{"insecure with certificates", func(o *Options) { member(o); o.RaftInsecure = true }, "raft-insecure and certificates exclude each other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Default()
			tt.change(&o)
			if err := o.CheckReplication(); tt.want != "" {
				wantError(t, err, tt.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *Options)
		want   string
	}{
		{"port out of range", func(o *Options) { o.Port = 70000 }, "port 70000: must be between 0 and 65535"},
		{"empty list", func(o *Options) { o.Bind = nil }, `bind "": must be IP addresses or host names, separated by spaces, or * for all interfaces`},
		{"duration", func(o *Options) { o.Timeout = -time.Second }, "timeout -1: must be between 0 and 2147483647 seconds"},
		{"single value", func(o *Options) { o.Databases = 16 }, "databases 16: must be 1: this server has one database"},
		{"invalid save point", func(o *Options) { o.Save = []SavePoint{{0, 1}} }, `save "0 1": must be pairs of seconds (from 1) and changes (from 0), or ""`},
		{"policy", func(o *Options) { o.MaxMemoryPolicy = "" }, `maxmemory-policy "": must be one of noeviction, evict-smallest-debt (with LRU, LFU or random eviction a flood of new keys would reset limits)`},
		{"bulk length above the query limit", func(o *Options) { o.ProtoMaxBulkLen = 2 * mib }, "proto-max-bulk-len must not be greater than client-query-buffer-limit"},
		{"inline length above the query limit", func(o *Options) { o.ProtoMaxBulkLen, o.ClientQueryBufferLimit = kib, 32*kib }, "proto-max-inline-len must not be greater than client-query-buffer-limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Default()
			tt.change(&o)
			wantError(t, o.Validate(), tt.want)
			if s, err := New(o); s != nil || err == nil {
				t.Errorf("New with the same options = %v, error %v; want no Store and an error", s, err)
			}
		})
	}
}
