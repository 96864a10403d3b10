package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unmasked changes a process so that it runs without a umask: the files that it creates have the modes that it gives.
func unmasked(p *process) *process {
	p.t.Helper()
	p.program = filepath.Join(p.t.TempDir(), "program")
	if err := os.WriteFile(p.program, []byte("#!/bin/sh\numask 0\nexec '"+os.Args[0]+"' \"$@\"\n"), 0o700); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// checkPrivate checks that only the owner can reach the files in a directory, and returns their number. The files of Raft's
// snapshots can have other modes, since a directory above them is private.
func checkPrivate(t *testing.T, root string) (files int) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		private := err == nil && info.Mode()&0o077 == 0
		switch {
		case entry.IsDir() && private:
			files += countFiles(t, path)
			return fs.SkipDir
		case !entry.IsDir() && !private:
			t.Errorf("%s has the mode %v, want no permissions for others", path, info.Mode())
		case !entry.IsDir():
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// countFiles returns the number of files in a directory and those in it.
func countFiles(t *testing.T, root string) (files int) {
	t.Helper()
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestProcess_FileModes checks the modes of all files that servers write: their data must not depend on the umask. A server whose
// directory all users can write to logs a warning.
func TestProcess_FileModes(t *testing.T) {
	for option, writes := range map[string][][]any{
		"--dir":      {{"SAVE"}, {"SAVE"}, {"ACL", "SAVE"}, {"CONFIG", "REWRITE"}},
		"--data-dir": {{"ACL", "SAVE"}, {"CONFIG", "REWRITE"}, {"SAVE"}},
	} {
		dir, state := t.TempDir(), t.TempDir()
		users, config := filepath.Join(dir, "users.acl"), filepath.Join(dir, "throttled.conf")
		writeFile(t, users, "user app on nopass\n")
		writeFile(t, config, "")
		p := unmasked(&process{t: t, id: "server", addr: freeAddr(t)})
		p.args = []string{config, "--port", portOf(p.addr), "--aclfile", users, "--logfile", filepath.Join(dir, "log.txt"), option, state}
		p.start()
		p.askUntil("[0 ", "CL.THROTTLE", "k", 1, 1, 3600)
		for _, command := range writes {
			p.mustDo(command...)
		}
		executes(t, exitOK, "1 keys", "backup", "--from", p.addr, "--out", filepath.Join(dir, "backup.thr"), "--users-out", filepath.Join(dir, "saved.acl"))
		p.kill()
		if n := checkPrivate(t, dir); n != 5 {
			t.Errorf("%s: %d files beside the state, want 5", option, n)
		}
		if n := checkPrivate(t, state); n < 2 {
			t.Errorf("%s: the state has %d files, want at least 2", option, n)
		}
		checkWritable(t, p, state, filepath.Join(dir, "log.txt"))
	}
}

// checkWritable starts a server again, whose state all users can write to, and checks that only then the log has a warning.
func checkWritable(t *testing.T, p *process, state, log string) {
	t.Helper()
	const warning = "all users of this host can create files in the directory"
	if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), warning) {
		t.Errorf("error %v, the log has a warning about a private directory:\n%s", err, text)
	}
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	p.start()
	waitFile(t, log, warning)
	p.kill()
}
