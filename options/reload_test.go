package options

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mustRewrite replaces the text of a configuration file.
func mustRewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func TestReload(t *testing.T) {
	path := mustWrite(t, "timeout 10\nmaxclients 77\nport 7000\nloglevel debug\n")
	s := mustLoad(t, environment{"THROTTLED_MAXMEMORY": "1mb"}, path, "--loglevel", "verbose")
	mustSet(t, s, "maxclients", "88", "requirepass", "secret")
	asked := 0
	s.OnChange(func(_, _ *Options) error { asked++; return nil })

	reload := func(text string, want Reloaded) {
		t.Helper()
		mustRewrite(t, path, text)
		got, err := s.Reload()
		if err != nil || !slices.Equal(got.Changed, want.Changed) || !slices.Equal(got.Restart, want.Restart) {
			t.Errorf("Reload of %q = %+v, error %v; want %+v", text, got, err, want)
		}
	}
	// An option whose line has not changed keeps its value, even a value set by CONFIG SET.
	reload("timeout 10\nmaxclients 77\nport 7000\nloglevel debug\n", Reloaded{})
	wantText(t, s.Get(), "maxclients", "88")
	// A flag and the environment override the file.
	reload("timeout 20\nmaxclients 77\nport 7001\nloglevel warning\nmaxmemory 5mb\n", Reloaded{[]string{"timeout"}, []string{"port"}})
	for name, want := range map[string]string{
		"timeout": "20", "port": "7000", "maxclients": "88", "loglevel": "verbose", "maxmemory": "1048576",
	} {
		wantText(t, s.Get(), name, want)
	}
	if s.Get().RequirePass != "secret" {
		t.Error("Reload changed the password, want the one set before")
	}
	// Deleting a line restores the default, and adding the line again takes effect.
	reload("", Reloaded{[]string{"timeout", "maxclients"}, []string{"port"}})
	wantText(t, s.Get(), "maxclients", "10000")
	wantText(t, s.Get(), "timeout", "0")
	reload("port 7000\nmaxclients 99\nsave 60 1\nsave 300 5\n", Reloaded{[]string{"maxclients", "save"}, []string{"port"}})
	wantText(t, s.Get(), "save", "60 1 300 5")
	if asked != 4 {
		t.Errorf("the hook was called %d times, want 4", asked)
	}
}

// TestReload_Refused checks that a file with any error changes no option.
func TestReload_Refused(t *testing.T) {
	const good = "timeout 10\n"
	path := mustWrite(t, good)
	s := mustLoad(t, nil, path)
	mustSet(t, s, "client-query-buffer-limit", "600kb")
	var refusal error
	s.OnChange(func(_, _ *Options) error { return refusal })
	before := *s.Get()
	for _, tt := range []struct {
		text string
		hook error
		want string
	}{
		{"timeout 20\n\nmaxclient 5\n", nil, path + ":3): unknown option, did you mean maxclients?"},
		{"timeout 20\nmaxclients none\n", nil, "maxclients none (" + path + ":2): must be"},
		{"timeout 20\nloglevel \"debug\n", nil, path + ":2: unbalanced quotes"},
		{"timeout 20\nproto-max-bulk-len 2mb\n", nil, "proto-max-bulk-len 2mb (" + path + ":2): proto-max-bulk-len must not be greater"},
		{"timeout 20\nproto-max-bulk-len 700kb\n", nil, path + ", combined with the current values: proto-max-bulk-len must not be greater than client-query-buffer-limit"},
		{"timeout 20\nraft-addr 127.0.0.1:1\n", nil, "require cluster-id"},
		{"timeout 20\nsave 60 1\n", errors.New("there is nowhere to save"), path + ": there is nowhere to save"},
		{"timeout 20\nlogfile /nowhere/x\n", &SetError{"logfile", "open /nowhere/x: no such file"}, path + ": logfile: open /nowhere/x"},
	} {
		mustRewrite(t, path, tt.text)
		refusal = tt.hook
		list, err := s.Reload()
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "2097152", "2mb"), tt.want) || len(list.Changed)+len(list.Restart) > 0 {
			t.Errorf("Reload of %q = %+v, error %v; want no changes and the error %s", tt.text, list, err, tt.want)
		}
		wantSame(t, s.Get(), &before)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Reload after the file was removed: error %v, want os.ErrNotExist", err)
	}
	// Reload finds the file after a change of the working directory, and compares it with the last successful read.
	refusal = nil
	t.Chdir(t.TempDir())
	mustRewrite(t, path, "timeout 30\n")
	if _, err := s.Reload(); err != nil {
		t.Error(err)
	}
	wantText(t, s.Get(), "timeout", "30")
}

// TestSet_LogFileBack sets the log file to the one used at startup, after CONFIG REWRITE has removed its name from the
// configuration file.
func TestSet_LogFileBack(t *testing.T) {
	t.Chdir(t.TempDir())
	first := filepath.Join(t.TempDir(), "first.log")
	s := mustLoad(t, nil, mustWrite(t, "logfile "+first+"\n"))
	mustSet(t, s, "logfile", "")
	if err := s.Rewrite(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "logfile", first)
}

// TestReload_WithoutFile checks that Reload changes nothing if there is no configuration file.
func TestReload_WithoutFile(t *testing.T) {
	for _, s := range []*Store{mustNew(t, Default()), mustLoad(t, environment{"THROTTLED_TIMEOUT": "5"})} {
		mustSet(t, s, "timeout", "7")
		if list, err := s.Reload(); err != nil || len(list.Changed)+len(list.Restart) > 0 {
			t.Errorf("Reload = %+v, error %v; want no changes", list, err)
		}
		wantText(t, s.Get(), "timeout", "7")
	}
}

// TestReload_AfterRewrite checks that Reload does not treat lines written by CONFIG REWRITE as changes, so that
// values set later by CONFIG SET are kept.
func TestReload_AfterRewrite(t *testing.T) {
	path := mustWrite(t, "timeout 10\n")
	s := mustLoad(t, nil, path, "--maxmemory", "1mb")
	mustSet(t, s, "timeout", "20", "maxclients", "5", "requirepass", "first", "maxmemory", "2mb")
	if err := s.Rewrite(); err != nil {
		t.Fatal(err)
	}
	reload := func(want Reloaded) {
		t.Helper()
		before := *s.Get()
		got, err := s.Reload()
		if err != nil || !slices.Equal(got.Changed, want.Changed) || len(got.Restart) > 0 {
			t.Fatalf("Reload = %+v, error %v; want only the expected changes, and none that requires a restart", got, err)
		}
		if len(want.Changed) == 0 {
			wantSame(t, s.Get(), &before)
		}
	}
	reload(Reloaded{})
	mustSet(t, s, "requirepass", "second", "maxmemory", "3mb")
	reload(Reloaded{})
	if err := s.Rewrite(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "requirepass", "third")
	reload(Reloaded{})
	// A later change to the file takes effect.
	mustRewrite(t, path, strings.Replace(mustRead(t, path), "timeout 20", "timeout 30", 1))
	reload(Reloaded{Changed: []string{"timeout"}})
	if s.Get().RequirePass != "third" {
		t.Errorf("the password is %q, want third", s.Get().RequirePass)
	}
}

// TestSet_LogFile checks the set of log files that a client may choose.
func TestSet_LogFile(t *testing.T) {
	logs, work, other := t.TempDir(), t.TempDir(), t.TempDir()
	t.Chdir(work)
	write := func(path, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := errors.Join(os.Symlink(filepath.Join(other, "x"), "link"), os.Symlink(other, "linked"), os.Mkdir("folder", 0o700)); err != nil {
		t.Fatal(err)
	}
	s := mustLoad(t, nil, "--logfile", filepath.Join(logs, "a.log"))
	for path, want := range map[string]string{
		"":                           "",
		"new.log":                    "",
		filepath.Join(work, "b.log"): "",
		filepath.Join(logs, "b.log"): "",
		logs + "/../" + filepath.Base(logs) + "/c.log":             "",
		write("empty.log", ""):                                     "",
		write("old.log", "time=2026-01-01 level=INFO msg=ready\n"): "",
		write("json.log", `{"time":"2026-01-01","level":"INFO"}`):  "",
		write("dump.json", `{"key":"k"}`):                          "is not a log",
		write("old.thr", "THROTTLD"):                               "is not a log",
		write("short", "time"):                                     "is not a log",
		filepath.Join(other, "a.log"):                              errLogFile.Error(),
		"../x.log":                                                 errLogFile.Error(),
		"nowhere/x.log":                                            errLogFile.Error(),
		"linked/x.log":                                             errLogFile.Error(),
		"link":                                                     "not a regular file",
		"folder":                                                   "not a regular file",
		"/dev/null":                                                errLogFile.Error(),
	} {
		err := s.Set(pairs("logfile", path))
		switch {
		case want == "" && (err != nil || s.Get().LogFile != path):
			t.Errorf("Set of logfile to %q: error %v, and the value is %q; want the new value", path, err, s.Get().LogFile)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("Set of logfile to %q: error %v; want %s", path, err, want)
		}
	}
}

// TestSet_LogFileBelowDir checks that the directory of a relative logfile is below dir, and not below the directory of the start.
func TestSet_LogFileBelowDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("dir/logs", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("logs", 0o700); err != nil {
		t.Fatal(err)
	}
	s := mustLoad(t, nil, "--dir", "dir", "--logfile", "logs/a.log")
	t.Chdir("dir")
	if err := s.Set(pairs("logfile", "logs/b.log")); err != nil {
		t.Errorf("Set of logfile to a file in the directory of the log: error %v", err)
	}
	if err := s.Set(pairs("logfile", "../logs/b.log")); err == nil {
		t.Error("logfile was set to a file in a directory below that of the start")
	}
}

// TestSet_LogFileIsTaken checks that the log cannot have the path of another file of the server, even if that file
// does not exist.
func TestSet_LogFileIsTaken(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"throttled.conf", "linked.conf", "revoked"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("linked.conf", "link.conf"); err != nil {
		t.Fatal(err)
	}
	args := []string{"--dbfilename", "db", "--raft-tls-revoked", "revoked", "--data-dir", "data"}
	for _, file := range []string{"throttled.conf", "link.conf"} {
		s := mustLoad(t, nil, append([]string{file}, args...)...)
		for path, want := range map[string]bool{
			"throttled.conf": file == "throttled.conf", "linked.conf": file == "link.conf", "link.conf": true,
			"db": true, "./db": true, "db.tmp": true, "db.previous": true, "db.previous.tmp": true, "revoked": true, "data": true,
			"db2": false, "dump.thr": false,
		} {
			if err := s.Set(pairs("logfile", path)); (err != nil) != want {
				t.Errorf("with the configuration file %s, Set of logfile to %s: error %v; want an error only if the server uses that path for another file", file, path, err)
			}
		}
	}
	// The same holds for a configuration file that has been deleted.
	s := mustLoad(t, nil, "throttled.conf")
	if err := os.Remove("throttled.conf"); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(pairs("logfile", "throttled.conf")); err == nil {
		t.Error("logfile was set to the path of the configuration file")
	}
}
