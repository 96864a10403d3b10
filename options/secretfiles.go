package options

import (
	"github.com/throttledhq/throttled/internal/fsutil"
)

// SecretFile is a file that contains a secret.
type SecretFile struct {
	Option string // the option that names the file, or "requirepass" for the configuration file
	Path   string // absolute, or relative to the directory of the option dir
}

// SecretFiles returns the files with secrets that are in use: the configuration file if it has a password, and the files of
// passwords, users and keys.
func (s *Store) SecretFiles() (list []SecretFile) {
	o := s.Get()
	if s.fileHasSecret() {
		list = append(list, SecretFile{"requirepass", s.file})
	}
	for _, f := range []SecretFile{{passwordFile, o.RequirePassFile}, {"aclfile", o.ACLFile}, {"raft-tls-key", o.RaftTLSKey}, {"upstream-password-file", o.UpstreamPasswordFile}, {"upstream-tls-key-file", o.UpstreamTLSKeyFile}} {
		if f.Path != "" {
			list = append(list, f)
		}
	}
	return list
}

// fileHasSecret reports whether the configuration file sets a secret option to a value that is not empty.
func (s *Store) fileHasSecret() bool {
	if s.file == "" {
		return false
	}
	data, err := fsutil.ReadFile(s.file)
	if err != nil {
		return false
	}
	for _, ln := range parseLines(data) {
		if r := find(ln.name); r != nil && r.secret && ln.value != "" {
			return true
		}
	}
	return false
}
