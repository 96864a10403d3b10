package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramUsers starts the program with a file of users, and with files that are not valid.
func TestProgramUsers(t *testing.T) {
	dir := t.TempDir()
	users := filepath.Join(dir, "users.acl")
	writeFile(t, users, "user bob on >pw ~app:* +cl.throttle\n")
	config, key, password := filepath.Join(dir, "throttled.conf"), filepath.Join(dir, "key"), filepath.Join(dir, "pw")
	writeFile(t, config, "requirepass secret\n")
	writeFile(t, key, "key")
	writeFile(t, password, "secret\n")
	for _, path := range []string{users, key} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, config, "--aclfile", users, "--raft-tls-key", key)
	r.wants("+OK\r\n-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", "AUTH bob pw", "CL.THROTTLE other 1 1 1")
	r.wants("+OK\r\n+OK\r\n+OK\r\n", "AUTH secret", "ACL SETUSER eve on", "ACL SAVE")
	log := r.log.String()
	for option, want := range map[string]bool{"aclfile": true, "raft-tls-key": true, "requirepass ": false} {
		if got := strings.Contains(log, "option="+option); got != want {
			t.Errorf("the log has a warning for %s: %t, want %t\n%s", option, got, want, log)
		}
	}
	if text, err := os.ReadFile(users); err != nil || !strings.Contains(string(text), "user eve on") {
		t.Errorf("the file contains %q, error %v", text, err)
	}
	for text, want := range map[string]string{
		"user bob on hunter2\n":      `option aclfile: line 1: user bob: rule 2, "(hidden)": Syntax error`,
		"user default on >hunter2\n": "option aclfile: the file defines the user default, whose password is also set by requirepass",
	} {
		writeFile(t, users, text)
		var errs bytes.Buffer
		if code := run([]string{"--port", "0", "--aclfile", users, "--requirepass-file", password}, nil, &errs, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("with %q the program exits with %d: %s", text, code, errs.String())
		}
		if strings.Contains(errs.String(), "hunter2") {
			t.Errorf("the output contains the password: %s", errs.String())
		}
	}
}
