package options

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPasswordFile reads the password from a file, and reads it again after a reload.
func TestPasswordFile(t *testing.T) {
	path := mustWrite(t, "first pass\r\n")
	s := mustLoad(t, nil, "--requirepass-file", path)
	if got := s.Get().Password(); got != "first pass" {
		t.Errorf("the password is %q", got)
	}
	if s.Get().RequirePass != "" {
		t.Error("the option requirepass contains the password")
	}
	if err := os.WriteFile(path, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := s.Reload()
	if err != nil || len(list.Changed) != 1 || list.Changed[0] != "requirepass-file" || s.Get().Password() != "second" {
		t.Errorf("after the reload: password %q, changed %q, error %v", s.Get().Password(), list.Changed, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reload(); err == nil || s.Get().Password() != "second" {
		t.Errorf("a reload without the file: password %q, error %v", s.Get().Password(), err)
	}
	if err := s.Set([]Pair{{"requirepass", "other"}}); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("CONFIG SET of requirepass: %v", err)
	}
}

// TestPasswordFile_RelativePath checks that a relative path is below dir, as those of other files, also after the program has
// changed to dir.
func TestPasswordFile_RelativePath(t *testing.T) {
	start := t.TempDir()
	t.Chdir(start)
	for path, text := range map[string]string{"pw": "outside", "sub/pw": "secret"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"sub", filepath.Join(start, "sub")} {
		t.Chdir(start)
		s := mustLoad(t, nil, "--dir", dir, "--requirepass-file", "pw")
		if s.Get().Password() != "secret" {
			t.Errorf("--dir %s: the password is %q, want that of the file in dir", dir, s.Get().Password())
		}
		t.Chdir("sub")
		if _, err := s.Reload(); err != nil || s.Get().Password() != "secret" {
			t.Errorf("--dir %s: after a reload, the password is %q, error %v", dir, s.Get().Password(), err)
		}
	}
}

// TestPasswordFile_Errors checks files that contain no password, and that no error contains the password.
func TestPasswordFile_Errors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct{ name, path, want string }{
		{"missing", missing, "no such file"},
		{"a directory", t.TempDir(), "is not a regular file"},
		{"empty", mustWrite(t, "\n"), "the file is empty"},
		{"two lines", mustWrite(t, "hunter2\nhunter2\n"), "several lines"},
		{"long", mustWrite(t, strings.Repeat("hunter2", maxPasswordFile/7+1)), "65536 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load([]string{"--requirepass-file", tt.path}, func(string) (string, bool) { return "", false })
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "option requirepass-file: read ") {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the password: %v", err)
			}
			o := Default()
			o.RequirePassFile = tt.path
			if _, err := New(o); err == nil {
				t.Error("New accepts the file")
			}
		})
	}
}

// TestPasswordFile_Conflict checks that both sources of the password are refused, without showing it.
func TestPasswordFile_Conflict(t *testing.T) {
	_, err := Load([]string{"--requirepass", "hunter2", "--requirepass-file", mustWrite(t, "x")}, func(string) (string, bool) { return "", false })
	if err == nil || !strings.Contains(err.Error(), "requirepass and requirepass-file exclude each other") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v", err)
	}
}
