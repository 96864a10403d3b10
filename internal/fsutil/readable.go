package fsutil

import (
	"log/slog"
	"os"
)

// Bits of the mode of a file: all users of the host can read or write it, and its group can write it.
const (
	othersRead  = 0o004
	othersWrite = 0o002
	groupWrite  = 0o020
)

// WarnReadable logs a warning if all users of this host can read a file with a secret, or if its group or all users can
// write it. The option names the file in the configuration. A file that does not exist causes no warning.
func WarnReadable(log *slog.Logger, option, path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.Mode()&othersRead != 0:
		log.Warn("a file with a secret is readable by all users of this host: remove the permissions (chmod go-w,o-r), and replace the secret if others may have read it",
			"option", option, "file", path)
	case info.Mode()&(othersWrite|groupWrite) != 0:
		log.Warn("other users of this host can write to a file with a secret: remove the permissions (chmod go-w), and check the content of the file",
			"option", option, "file", path)
	}
}

// WarnWritable logs a warning if all users of this host can write to a directory with the state of the server, so that they can
// add or replace files. The option names the directory in the configuration.
func WarnWritable(log *slog.Logger, option, dir string) {
	if info, err := os.Stat(dir); err == nil && info.Mode()&othersWrite != 0 {
		log.Warn("all users of this host can create files in the directory with the state of the server: use a directory to which only its user can write, and check the files in it",
			"option", option, "dir", dir)
	}
}
