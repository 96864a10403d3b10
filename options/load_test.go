package options

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/nearest"
)

func TestLoad_Defaults(t *testing.T) {
	s := mustLoad(t, nil)
	want := Default()
	wantSame(t, s.Get(), &want)
	if s.File() != "" {
		t.Errorf("without a file, File() = %q, want an empty string", s.File())
	}
}

// TestLoad_Precedence sets the port in each subset of the sources. The last source of the subset applies.
func TestLoad_Precedence(t *testing.T) {
	for mask := range 8 {
		want := "6380"
		var args []string
		env := environment{}
		if mask&1 != 0 {
			args, want = append(args, mustWrite(t, "port 7001\n")), "7001"
		}
		if mask&2 != 0 {
			env["THROTTLED_PORT"], want = "7002", "7002"
		}
		if mask&4 != 0 {
			args, want = append(args, "--port", "7003"), "7003"
		}
		s := mustLoad(t, env, args...)
		wantText(t, s.Get(), "port", want)
	}
}

// TestLoad_EverySource sets each option through each source.
func TestLoad_EverySource(t *testing.T) {
	for name, text := range otherValue {
		variable := "THROTTLED_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		sources := map[string]*Store{
			"flag":    mustLoad(t, nil, "--"+name, text),
			"minus":   mustLoad(t, nil, "-"+name+"="+text),
			"env":     mustLoad(t, environment{variable: text}),
			"file":    mustLoad(t, nil, mustWrite(t, strings.ToUpper(name)+" "+quote(text))),
			"--conf":  mustLoad(t, nil, "--config", mustWrite(t, name+"\t"+quote(text)+" \r\n")),
			"envconf": mustLoad(t, environment{configEnv: mustWrite(t, "# c\n\n  "+name+" "+quote(text))}),
		}
		want := Default()
		if err := find(name).field(&want).Set(text); err != nil {
			t.Fatal(err)
		}
		if err := want.readPassword("."); err != nil {
			t.Fatal(err)
		}
		for source, s := range sources {
			t.Run(name+"/"+source, func(t *testing.T) { wantSame(t, s.Get(), &want) })
		}
	}
}

func TestLoad_TypedFields(t *testing.T) {
	s := mustLoad(t, environment{"THROTTLED_TIMEOUT": "30"}, "--maxmemory", "1gb", "--bind", "::1 127.0.0.1",
		"--slowlog-log-slower-than", "-1", "--latency-monitor-threshold=5", "-protected-mode", "false")
	o := s.Get()
	if o.Timeout != 30*time.Second || o.MaxMemory != 1<<30 || len(o.Bind) != 2 || o.SlowlogLogSlowerThan >= 0 ||
		o.LatencyMonitorThreshold != 5*time.Millisecond || o.ProtectedMode {
		t.Errorf("the options are %+v; want the values given by the environment and the flags", *o)
	}
}

func TestLoad_Booleans(t *testing.T) {
	for text, want := range map[string]string{
		"yes": "yes", "True": "yes", "1": "yes", "NO": "no", "false": "no", "0": "no",
	} {
		wantText(t, mustLoad(t, nil, "--protected-mode", text).Get(), "protected-mode", want)
		wantText(t, mustLoad(t, environment{"THROTTLED_PROTECTED_MODE": text}).Get(), "protected-mode", want)
	}
	_, err := Load([]string{mustWrite(t, "protected-mode true")}, environment{}.lookup)
	if err == nil || !strings.HasSuffix(err.Error(), ":1): must be yes or no") {
		t.Errorf("\"protected-mode true\" in a file: error %v, want \"must be yes or no\"", err)
	}
}

func TestLoad_File(t *testing.T) {
	path := mustWrite(t, `
# A comment, and "quotes that do not end
   # another
bind 127.0.0.1 ::1
requirepass "a \"b\" \x41\n"
logfile '/var/log/it\'s'
TIMEOUT 5
timeout 6
save ""
appendonly no`)
	o := mustLoad(t, nil, path).Get()
	wantText(t, o, "bind", "127.0.0.1 ::1")
	wantText(t, o, "requirepass", "a \"b\" A\n")
	wantText(t, o, "logfile", "/var/log/it's")
	wantText(t, o, "timeout", "6")
}

// TestLoad_SaveAddsUp sets the option save several times in one source, and in several sources.
func TestLoad_SaveAddsUp(t *testing.T) {
	f := func(want, file string, env environment, args ...string) {
		t.Helper()
		if file != "" {
			args = append([]string{mustWrite(t, file)}, args...)
		}
		wantText(t, mustLoad(t, env, args...).Get(), "save", want)
	}
	f("60 1 300 10", "save 60 1\nport 1\nSAVE 300 10", nil)
	f("60 1 300 10", "save 60 1 300 10", nil)
	f("60 1 300 10 5 5", "save \"60 1 300 10\"\nsave 5 5", nil)
	f("300 5", "save 60 1\nsave \"\"\nsave 300 5", nil)
	f("", "save 60 1\nsave \"\"", nil)
	f("60 1 300 10", "", nil, "--save", "60 1", "--save=300 10")
	f("300 10", "", nil, "--save", "60 1", "--save", "", "--save", "300 10")
	// A later source replaces an earlier one.
	env := environment{"THROTTLED_SAVE": "7 7 8 8"}
	f("7 7 8 8", "save 60 1", env)
	f("9 9", "save 60 1", env, "--save", "9 9")
	f("", "save 60 1", environment{"THROTTLED_SAVE": ""})
	f("", "save 60 1", env, "--save", "")
	// Other options do not accumulate.
	wantText(t, mustLoad(t, nil, mustWrite(t, "bind ::1\nbind 127.0.0.1")).Get(), "bind", "127.0.0.1")
}

func TestLoad_SavePoints(t *testing.T) {
	o := mustLoad(t, nil, "--save", "3600 1 300 100").Get()
	if len(o.Save) != 2 || o.Save[0] != (SavePoint{time.Hour, 1}) || o.Save[1] != (SavePoint{5 * time.Minute, 100}) {
		t.Errorf("Save = %v, want {1h0m0s 1} and {5m0s 100}", o.Save)
	}
}

func TestLoad_FileIsAbsolute(t *testing.T) {
	path := mustWrite(t, "port 7000")
	t.Chdir(filepath.Dir(path))
	s := mustLoad(t, nil, filepath.Base(path))
	if !filepath.IsAbs(s.File()) || filepath.Base(s.File()) != filepath.Base(path) {
		t.Errorf("File() = %q, want the absolute path of the file", s.File())
	}
}

func TestLoad_WhichFile(t *testing.T) {
	one, two := mustWrite(t, "port 7001"), mustWrite(t, "port 7002")
	tests := []struct {
		env  environment
		args []string
		want string
	}{
		{environment{configEnv: one}, nil, "7001"},
		{environment{configEnv: one}, []string{two}, "7002"},
		{environment{configEnv: one}, []string{"--config", two}, "7002"},
		{environment{configEnv: one}, []string{"--config", ""}, "6380"},
		{environment{configEnv: ""}, nil, "6380"},
		{nil, []string{one, "--config", one}, "7001"},
		{nil, []string{two, "--port", "7003"}, "7003"},
		{nil, []string{"--port", "7003", "--config=" + two}, "7003"},
	}
	for _, tt := range tests {
		wantText(t, mustLoad(t, tt.env, tt.args...).Get(), "port", tt.want)
	}
}

func TestLoad_Sentinels(t *testing.T) {
	for arg, want := range map[string]error{
		"-h": ErrHelp, "--help": ErrHelp, "-help": ErrHelp,
		"-v": ErrVersion, "--version": ErrVersion,
	} {
		for _, args := range [][]string{{arg}, {"--port", "x", arg}, {"no-such-file", arg}} {
			if s, err := Load(args, environment{}.lookup); s != nil || !errors.Is(err, want) {
				t.Errorf("Load(%q) = %v, error %v; want no Store and error %v", args, s, err, want)
			}
		}
	}
}

func TestLoad_Refusals(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  environment
		args []string
		want string // FILE means the path of the file
	}{
		{"flag", "", nil, []string{"--port", "70000"},
			"--port 70000 (flag): must be between 0 and 65535"},
		{"one hyphen and an invalid number", "", nil, []string{"-port=x y"},
			`--port "x y" (flag): must be between 0 and 65535`},
		{"environment", "", environment{"THROTTLED_MAXMEMORY": "1tb"}, nil,
			"maxmemory 1tb (THROTTLED_MAXMEMORY): must be between 0 and 9223372036854775807 bytes, with or without a unit (k, kb, m, mb, g, gb)"},
		{"empty environment", "", environment{"THROTTLED_PORT": ""}, nil,
			`port "" (THROTTLED_PORT): must be between 0 and 65535`},
		{"file", "# one\n\nTimeout -1\n", nil, nil,
			"timeout -1 (FILE:3): must be between 0 and 2147483647 seconds"},
		{"an invalid value that a flag overrides", "port x", nil, []string{"--port", "7000"},
			"port x (FILE:1): must be between 0 and 65535"},
		{"boolean", "", nil, []string{"--protected-mode", "maybe"},
			"--protected-mode maybe (flag): must be yes or no"},
		{"enum", "", nil, []string{"--loglevel", "loud"},
			"--loglevel loud (flag): must be one of debug, verbose, notice, warning"},
		{"enum with a reason", "", nil, []string{"--maxmemory-policy", "allkeys-lru"},
			"--maxmemory-policy allkeys-lru (flag): must be one of noeviction, evict-smallest-debt (with LRU, LFU or random eviction a flood of new keys would reset limits)"},
		{"milliseconds", "", nil, []string{"--latency-monitor-threshold", "-1"},
			"--latency-monitor-threshold -1 (flag): must be between 0 and 2147483647 milliseconds"},
		{"microseconds", "", nil, []string{"--slowlog-log-slower-than", "1ms"},
			"--slowlog-log-slower-than 1ms (flag): must be between -1 and 9223372036854775 microseconds"},
		{"addresses", "bind 127.0.0.1:80", nil, nil,
			"bind 127.0.0.1:80 (FILE:1): must be IP addresses or host names, separated by spaces, or * for all interfaces"},
		{"directory", "", nil, []string{"--dir", ""},
			`--dir "" (flag): must be the path of a directory`},
		{"filename", "", nil, []string{"--dbfilename", "a/b"},
			"--dbfilename a/b (flag): must be a filename, not a path"},
		{"save", "save 3600 1\nsave 300", nil, nil,
			`save 300 (FILE:2): must be pairs of seconds (from 1) and changes (from 0), or ""`},
		{"two flags with half a save point each", "", nil, []string{"--save", "60", "--save", "1"},
			`--save 60 (flag): must be pairs of seconds (from 1) and changes (from 0), or ""`},
		{"single value", "", environment{"THROTTLED_APPENDONLY": "true"}, nil,
			"appendonly true (THROTTLED_APPENDONLY): must be no: this server has no append-only file"},

		{"unknown flag with a similar option", "", nil, []string{"--maxclient", "5"},
			"--maxclient (flag): unknown option, did you mean --maxclients?"},
		{"unknown flag in upper case", "", nil, []string{"--PORT", "5"},
			"--PORT (flag): unknown option, did you mean --port?"},
		{"unknown flag", "", nil, []string{"--cluster-config-file=yes"},
			"--cluster-config-file (flag): unknown option, --help lists the options"},
		{"unknown name with a similar option", "requirepas secret", nil, nil,
			"requirepas (FILE:1): unknown option, did you mean requirepass?"},
		{"unknown name", "port 1\nloadmodule x.so", nil, nil,
			"loadmodule (FILE:2): unknown option, --help lists the options"},
		{"name and value without a space", "port 1\nrequirepass=hunter2", nil, nil,
			"requirepass (FILE:2): separate the name and the value by a space"},
		{"unknown name and value without a space", "requirepas:hunter2", nil, nil,
			"requirepas (FILE:1): unknown option, did you mean requirepass?"},
		{"flag and value with a colon", "", nil, []string{"--requirepass:hunter2"},
			"--requirepass (flag): separate the name and the value by a space"},
		{"very long name", strings.Repeat("p", 80) + " 1", nil, nil,
			strings.Repeat("p", 80) + " (FILE:1): unknown option, --help lists the options"},

		{"flag without a value", "", nil, []string{"--port"}, "--port (flag): needs a value"},
		{"name without a value", "port", nil, nil, "port (FILE:1): needs a value"},
		{"two values", "requirepass two words", nil, nil,
			"requirepass (FILE:1): takes one value: quote a value with spaces"},
		{"comment after a value", "port 1\nrequirepass secret # ours", nil, nil,
			"FILE:2: a comment must be on a line of its own: move the text after #"},
		{"comment after several values", "http-hosts a.example #ours", nil, nil,
			"FILE:1: a comment must be on a line of its own: move the text after #"},
		{"unbalanced quotes", "port 1\nrequirepass \"se cret", nil, nil, "FILE:2: unbalanced quotes"},
		{"words after a flag", "", nil, []string{"--bind", "127.0.0.1", "::1"},
			"unexpected argument ::1: write the configuration file first, and quote a value of several words"},
		{"flag with three hyphens", "", nil, []string{"---port", "1"}, "bad flag syntax: ---port"},
		{"two files", "port 1", nil, []string{"--config", "x.conf"},
			"--config x.conf (flag): the configuration file is FILE already"},

		{"conflict", "client-query-buffer-limit 64kb", nil, []string{"--proto-max-bulk-len", "128kb"},
			"--proto-max-bulk-len 131072 (flag): proto-max-bulk-len must not be greater than client-query-buffer-limit (131072 and 65536)"},
		{"conflict with a default", "client-query-buffer-limit 64kb", nil, nil,
			"client-query-buffer-limit 65536 (FILE:1): proto-max-bulk-len must not be greater than client-query-buffer-limit (524288 and 65536)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, args := "", tt.args
			if tt.file != "" {
				path = mustWrite(t, tt.file)
				args = append([]string{path}, args...)
			}
			s, err := Load(args, tt.env.lookup)
			wantError(t, err, strings.ReplaceAll(tt.want, "FILE", path))
			if s != nil {
				t.Error("Load returned a Store together with the error")
			}
		})
	}
}

func TestLoad_MissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.conf")
	_, err := Load([]string{path}, environment{}.lookup)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error = %v, want fs.ErrNotExist with the path", err)
	}
}

// TestRefuse_HidesSecrets calls refuse, which is the only function that puts values in
// errors. It does not use Load, because every value of the existing secrets is valid.
func TestRefuse_HidesSecrets(t *testing.T) {
	err := refuse(find("requirepass"), "hunter2", fromFlag, "must be longer")
	wantError(t, err, "--requirepass (secret) (flag): must be longer")
}

func TestNearest(t *testing.T) {
	tests := map[string]string{
		"prot": "port", "port": "port", "Time-Out": "timeout", "maxmem": "maxmemory", "log-level": "loglevel",
		"tcp-keep-alive": "tcp-keepalive", "max-clients": "maxclients", "maxmemory-polciy": "maxmemory-policy",
		"nope": "", "x": "", "": "", "cluster-config-file": "",
	}
	for name, want := range tests {
		if got := nearest.Word(name, names()); got != want {
			t.Errorf("the nearest option to %q is %q, want %q", name, got, want)
		}
	}
}
