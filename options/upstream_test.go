package options

import (
	"slices"
	"strings"
	"testing"
)

func TestUpstreams(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "a:1": {"a:1"}, "a:1,b:2": {"a:1", "b:2"}, " a:1  [::1]:2,\tc:3, ": {"a:1", "[::1]:2", "c:3"},
	} {
		var o Options
		if err := (upstreams{&o.Upstream}).Set(text); err != nil || !slices.Equal(o.Upstream, want) {
			t.Errorf("%q: got %q, %v, want %q", text, o.Upstream, err, want)
		}
	}
	for text, want := range map[string]string{
		"a": "host:port", "a:0": "host:port", "a:1,b": "host:port", "0.0.0.0:1": "a host to connect to", ":1": "a host to connect to", "a:1,a:1": "twice",
		"sentinel://a:1/x": "host:port",
	} {
		o := Options{Upstream: []string{"old:1"}}
		if err := (upstreams{&o.Upstream}).Set(text); err == nil || !strings.Contains(err.Error(), want) || o.Upstream[0] != "old:1" {
			t.Errorf("%q: got %q, %v, want the old value and an error with %q", text, o.Upstream, err, want)
		}
	}
}

func TestCheckUpstream(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--port 0", ""},
		{"--upstream a:1,b:2 --upstream-user u --upstream-password-file p", ""},
		{"--upstream a:1 --upstream-tls yes --upstream-tls-cert-file c --upstream-tls-key-file k", ""},
		{"--upstream-user u", "upstream-user requires upstream: set upstream, or remove upstream-user"},
		{"--upstream-tls yes", "upstream-tls requires upstream"},
		{"--upstream-timeout 50 --upstream-away closed --upstream-share 1/1", ""},
		{"--upstream-timeout 51", "upstream-timeout requires upstream"},
		{"--upstream-away open", "upstream-away requires upstream"},
		{"--upstream-share 1/2", "upstream-share requires upstream"},
		{"--upstream-tls-ca-cert-file c", "upstream-tls-ca-cert-file requires upstream"},
		{"--upstream a:1 --maxmemory 1gb", "upstream and maxmemory exclude each other"},
		{"--upstream a:1 --maxmemory-policy evict-smallest-debt", "upstream and maxmemory-policy exclude each other"},
		{"--upstream a:1 --window-log-max-entries 10", ""},
		{"--upstream a:1 --data-dir d", "upstream and data-dir exclude each other"},
		{"--upstream a:1 --save 3600_1", "upstream and save exclude each other"},
		{"--upstream a:1 --cluster-id c", "upstream and cluster-id exclude each other"},
		{"--upstream a:1 --rules r", "upstream and rules exclude each other"},
		{"--upstream a:1 --upstream-user u", "upstream-user requires upstream-password-file"},
		{"--upstream a:1 --upstream-tls-ca-cert-file c", "require upstream-tls"},
		{"--upstream a:1 --upstream-tls yes --upstream-tls-cert-file c", "require each other"},
	} {
		args := strings.Fields(tt.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		s, err := Load(args, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatalf("%s: %v", tt.args, err)
		}
		err = s.Get().CheckUpstream()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got error %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestLesseeName(t *testing.T) {
	name := "old"
	v := lesseeName{&name}
	if err := v.Set(strings.Repeat("n", 65)); err == nil || !strings.Contains(err.Error(), "at most 64 bytes") || name != "old" {
		t.Errorf("65 bytes: got %q, %v, want the old value and an error with \"at most 64 bytes\"", name, err)
	}
	for _, text := range []string{strings.Repeat("n", 64), ""} {
		if err := v.Set(text); err != nil || v.String() != text {
			t.Errorf("%q: got %q, %v, want no error", text, v.String(), err)
		}
	}
}

func TestFraction(t *testing.T) {
	var share float64
	v := fraction{&share}
	for text, want := range map[string]string{
		"1": "1", "1/1": "1", "1/3": "1/3", "1/1000000": "1/1000000", "0.25": "1/4", "0.4": "0.4", "1e-9": "1/1000000000", "0.3333": "0.3333",
	} {
		if err := v.Set(text); err != nil || v.String() != want {
			t.Errorf("%q: got %q, error %v, want %q", text, v.String(), err, want)
		}
		if before := share; v.Set(v.String()) != nil || share != before {
			t.Errorf("%q: setting %q changes the value from %g to %g", text, want, before, share)
		}
	}
	for _, text := range []string{"", "0", "1/0", "-1", "1.01", "1/0.5", "2/3", "NaN", "1/NaN", "1/", "Inf", "1/Inf", "1/-3", "x"} {
		if err := v.Set(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, v.String())
		}
	}
}
