package main

import (
	"os"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/internal/fsutil"
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
		return wrongUsage("option aclfile: %w", err)
	}
	config.Users.Replace(set)
	return nil
}

// warnReadable logs a warning for each file with a secret that every user of this host can read. Package tlsserver does this for
// the key of clients' TLS, each time that it loads the key.
func (p *program) warnReadable() {
	for _, f := range p.opts.SecretFiles() {
		fsutil.WarnReadable(p.log, f.Option, f.Path)
	}
}

// warnWritable logs a warning if every user of this host can write to the directory with the state of the server: data-dir, or
// dir, which is the working directory, unless snapshots are disabled.
func (p *program) warnWritable(o *options.Options) {
	switch {
	case o.DataDir != "":
		fsutil.WarnWritable(p.log, "data-dir", o.DataDir)
	case p.store != nil:
		if dir, err := os.Getwd(); err == nil {
			fsutil.WarnWritable(p.log, "dir", dir)
		}
	}
}
