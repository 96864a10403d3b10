package fsutil

import (
	"log/slog"
	"os"
)

// othersRead is the bit of the mode of a file with which all users of a host can read it.
const othersRead = 0o004

// WarnReadable logs a warning if all users of this host can read a file with a secret. The option names the file in the
// configuration. A file that does not exist causes no warning.
func WarnReadable(log *slog.Logger, option, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode()&othersRead != 0 {
		log.Warn("a file with a secret is readable by all users of this host: remove the permission (chmod o-r), and replace the secret if others may have read it",
			"option", option, "file", path)
	}
}
