package server

import (
	"errors"
	"io/fs"
	"os"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/internal/fsutil"
)

// usersMode is the mode of a new file of users, which contains the digests of passwords.
const usersMode fs.FileMode = 0o600

// errUsersPassword is the error for a file that defines the password of the user "default" in addition to requirepass.
var errUsersPassword = errors.New("the file defines the user default, whose password is also set by requirepass or requirepass-file: remove the line, or the option")

// ReadUsers reads a file of users. The argument password is that of the options, "" for none; a file that defines the user
// "default" is then refused. The error names the line and the wrong word, but no password.
func ReadUsers(path, password string) (*acl.Set, error) {
	text, err := fsutil.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set, err := acl.Parse(string(text), UserCatalog())
	if err == nil && password != "" && set.DefaultIsExplicit() {
		err = errUsersPassword
	}
	return set, err
}

// usersFile returns the path of the file of users, or the error for a server that has none.
func (c *client) usersFile() (string, error) {
	switch {
	case c.session.tx.running:
		return "", errUsersMulti
	case c.srv.users.log != nil:
		return "", errUsersInLog
	}
	if path := c.srv.opts.Get().ACLFile; path != "" {
		return path, nil
	}
	return "", errNoUsersFile
}

// cmdACLSave implements ACL SAVE.
func cmdACLSave(c *client, _ [][]byte) error {
	path, err := c.usersFile()
	if err != nil {
		return err
	}
	mode := usersMode
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	users := c.srv.currentUsers()
	if err := fsutil.Replace(path, []byte(users.Text()), mode); err != nil {
		c.srv.log.Error("the users were not saved", "error", err)
		return errUsersNotSaved
	}
	if users.DefaultIsExplicit() && c.srv.opts.Get().Password() != "" {
		c.srv.log.Warn("the saved file defines the user default: remove requirepass and requirepass-file before the next start, which fails otherwise", "file", path)
	}
	c.out.OK()
	return nil
}

// cmdACLLoad implements ACL LOAD. If the file is not valid, the users do not change.
func cmdACLLoad(c *client, _ [][]byte) error {
	path, err := c.usersFile()
	if err != nil {
		return err
	}
	set, err := ReadUsers(path, c.srv.opts.Get().Password())
	if err != nil {
		return replyError("ERR the users were not changed: " + path + ": " + err.Error())
	}
	set.Follow(c.srv.users.Get())
	c.srv.users.Replace(set)
	c.srv.closeRevoked(c.srv.currentUsers())
	c.srv.log.Info("the users were loaded", "file", path, "users", set.Len(), "by", c.session.user.Name(), "addr", c.addr())
	c.out.OK()
	return nil
}
