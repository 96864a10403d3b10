package fsutil

import (
	"log/slog"
	"os"
)

// othersRead and othersWrite are the bits of the mode of a file with which all users of a host can read and write it.
const (
	othersRead  = 0o004
	othersWrite = 0o002
)

// WarnReadable logs a warning if all users of this host can read a file with a secret. The option names the file in the
// configuration. A file that does not exist causes no warning.
func WarnReadable(log *slog.Logger, option, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode()&othersRead != 0 {
		log.Warn("a file with a secret is readable by all users of this host: remove the permission (chmod o-r), and replace the secret if others may have read it",
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
