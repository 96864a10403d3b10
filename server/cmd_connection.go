package server

import (
	"bytes"
	"math"
	"strings"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/resp"
)

// redisVersion is the Redis version that the server reports. Some clients use it to decide which commands they send.
const redisVersion = "7.4.0"

// maxFailedLogins is the number of consecutive failed logins after which a connection is closed.
const maxFailedLogins = 10

func cmdPing(c *client, args [][]byte) error {
	if len(args) > 2 {
		return errArity("ping")
	}
	switch {
	case c.session.subscriptions.any() && c.out.Protocol() == 2:
		c.out.Array(2)
		c.out.Text("pong")
		c.out.Bulk(bytes.Join(args[1:], nil))
	case len(args) == 2:
		c.out.Bulk(args[1])
	default:
		c.out.Status("PONG")
	}
	return nil
}

func cmdEcho(c *client, args [][]byte) error {
	c.out.Bulk(args[1])
	return nil
}

func cmdSelect(c *client, args [][]byte) error {
	index, ok := resp.ParseInt(args[1])
	switch {
	case !ok:
		return errNotInteger
	case index < math.MinInt32 || index > math.MaxInt32:
		return errNotInt32
	case index != 0:
		return c.listener.database
	}
	c.out.OK()
	return nil
}

func cmdQuit(c *client, _ [][]byte) error {
	c.out.OK()
	c.pipe.quit()
	return nil
}

// cmdReset restores the initial state of the connection, except for the name and version of the client library.
func cmdReset(c *client, _ [][]byte) error {
	c.endBackup()
	c.session.reset()
	c.conn.output.releaseFeed()
	c.out.SetProtocol(2)
	c.resetAuth()
	c.updateSettings()
	c.out.Status("RESET")
	return nil
}

func cmdAuth(c *client, args [][]byte) error {
	switch len(args) {
	case 2:
		if c.srv.currentUsers().Default().NoPassword() {
			return errNoPassword
		}
		return c.authenticate([]byte(acl.DefaultName), args[1])
	case 3:
		return c.authenticate(args[1], args[2])
	}
	return errSyntax
}

// authenticate replies with OK if the user and the password are right.
func (c *client) authenticate(user, password []byte) error {
	err := c.login(user, password, "AUTH")
	if err == nil {
		c.out.OK()
	}
	return err
}

// login checks a user and a password. After maxFailedLogins consecutive failures the connection is closed. The argument by
// is the name of the command.
func (c *client) login(user, password []byte, by string) error {
	u, wait := c.srv.authenticate(c.addr(), c.listener, user, password)
	if u != nil {
		c.session.failedLogins = 0
		c.become(u)
		return nil
	}
	c.session.failedLogins++
	if c.session.failedLogins >= maxFailedLogins {
		c.pipe.quit()
	}
	if wait > 0 {
		c.srv.warn("auth-limit", "login refused: too many wrong passwords from this address", "addr", c.addr(), "client", c.id)
		return errTooManyFailures(wait)
	}
	if c.srv.users.Get().IsPassword(user) {
		user = []byte("(hidden)") // user and password were exchanged
	}
	c.recordDenial(denial{kind: deniedLogin, object: by}, inToplevel, string(user))
	c.srv.warn("auth", "wrong password", "addr", c.addr(), "client", c.id, "tries", c.session.failedLogins)
	return errWrongPass
}

// hello holds the arguments of HELLO.
type hello struct {
	version        int // 0 means unchanged
	user, password []byte
	auth           bool
	name           []byte
	setName        bool
}

func parseHello(args [][]byte) (h hello, err error) {
	if len(args) > 1 {
		n, ok := resp.ParseInt(args[1])
		switch {
		case !ok:
			return h, errProtoNumber
		case n != 2 && n != 3:
			return h, errNoProto
		}
		h.version = int(n)
	}
	for i := 2; i < len(args); {
		word := strings.ToLower(string(args[i]))
		switch {
		case word == "auth" && i+2 < len(args):
			h.auth, h.user, h.password = true, args[i+1], args[i+2]
			i += 3
		case word == "setname" && i+1 < len(args):
			if !validName(args[i+1]) {
				return h, errClientName
			}
			h.setName, h.name = true, args[i+1]
			i += 2
		default:
			return h, replyError("ERR Syntax error in HELLO option '" + echo(args[i], maxEcho) + "'")
		}
	}
	return h, nil
}

func cmdHello(c *client, args [][]byte) error {
	h, err := parseHello(args)
	if err != nil {
		return err
	}
	if h.auth {
		if err := c.login(h.user, h.password, "HELLO"); err != nil {
			return err
		}
	}
	if !c.session.authenticated {
		return errHelloNoAuth
	}
	if h.version != 0 {
		c.out.SetProtocol(h.version)
		s := &c.session
		s.subscriptionsChanged = s.subscriptionsChanged || c.conn.output.feed != nil && s.subscriptions.any()
	}
	c.session.setInfo(func(i *clientInfo) {
		i.resp = c.out.Protocol()
		if h.setName {
			i.name = string(h.name)
		}
	})
	c.updateSettings()
	c.greet()
	return nil
}

// greet appends the reply to HELLO.
func (c *client) greet() {
	c.out.Map(7 - countTrue(c.listener.noRole))
	for _, pair := range [...]struct{ name, value string }{{"server", "redis"}, {"version", redisVersion}} {
		c.out.Text(pair.name)
		c.out.Text(pair.value)
	}
	c.out.Text("proto")
	c.out.Int(int64(c.out.Protocol()))
	c.out.Text("id")
	c.out.Int(c.id)
	c.out.Text("mode")
	c.out.Text(c.listener.mode)
	if !c.listener.noRole {
		c.out.Text("role")
		c.out.Text([...]string{"replica", "master"}[countTrue(c.pipe.leads() || c.srv.isSidecar())])
	}
	c.out.Text("modules")
	if c.listener.set&onData == 0 {
		c.out.Array(0)
		return
	}
	replyModules(&c.out)
}

// validName reports whether a client name is valid: printable ASCII without spaces, at most maxName bytes. A valid name
// cannot break the lines of CLIENT LIST or the log.
func validName(name []byte) bool {
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(name) <= maxName
}

const maxName = 1024
