package main

import (
	"os"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
)

// openUsers creates the users of the server, from aclfile if the option is set. The server does not start if the file is not
// valid, since it would otherwise accept clients without their restrictions.
func (p *program) openUsers(o *options.Options, config *server.Config) error {
	config.Users = acl.NewStore(acl.NewSet(server.UserCatalog()))
	if o.ACLFile == "" {
		return nil
	}
	set, err := server.ReadUsers(o.ACLFile, o.Password())
	if err != nil {
		return &fileError{"aclfile", err}
	}
	config.Users.Replace(set)
	return nil
}

// warnReadable logs a warning for each file with a secret that every user of this host can read.
func (p *program) warnReadable() {
	const othersRead = 0o004
	for _, f := range p.opts.SecretFiles() {
		if info, err := os.Stat(f.Path); err == nil && info.Mode().Perm()&othersRead != 0 {
			p.log.Warn("a file with a secret is readable by all users of this host: remove the permission (chmod o-r)", "option", f.Option, "file", f.Path)
		}
	}
}
