package server

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
)

const (
	noCommand = "NOPERM this user has no permissions to run the '%s' command"
	noKey     = "NOPERM this user has no permissions to access one of the keys used as arguments"
	noChannel = "NOPERM this user has no permissions to access one of the channels used as arguments"
	noDomain  = "NOPERM this user has no permissions to use this domain of the rules"
)

// withUsers returns a server with users and rules, which limits no failures.
func withUsers(users string) setup {
	store := ruleset.NewStore()
	return setup{users: users, rules: store, options: func(o *options.Options) { o.AuthFailuresPerMinute = 0 }}
}

const twoDomains = `version: 1
domain: web-1
limits: {a: {per: ip, allow: 50 per minute}}
---
version: 1
domain: other
limits: {a: {per: ip, allow: 50 per minute}}
`

// as connects and logs in as a user with the password "pw".
func (s *testServer) as(user string) *peer {
	s.t.Helper()
	p := s.dial()
	p.do("+OK\r\n", "AUTH", user, "pw")
	return p
}

// TestPermissions runs commands as users with different permissions. An empty error means that the command is permitted.
func TestPermissions(t *testing.T) {
	s := withUsers(`
user app on >pw ~app:* +cl.throttle
user limits on >pw ~app:* %R~seen:* +@limits +exists +ttl +del domain:web-* domain:x
user news on >pw allchannels resetchannels &news:* &one +subscribe +psubscribe +publish +multi +exec
user refund on >pw ~* +@limits +cl.refund alldomains
user sub on >pw +client -client|kill +config|get
`).start(t)
	setRules(t, s.live.Store, twoDomains)
	for _, test := range []struct{ user, command, err string }{
		{"app", "CL.THROTTLE app:1 2 1 60", ""},
		{"app", "cl.throttle app:1 2 1 60 -1", noCommandNamed("cl.refund")},
		{"app", "CL.THROTTLE other 2 1 60", noKey},
		{"app", "CL.THROTTLE app:1 2 1", "ERR wrong number of arguments"},
		{"app", "CL.WINDOW app:1 2 60", noCommandNamed("cl.window")},
		{"app", "PING", noCommandNamed("ping")},
		{"app", "CLIENT ID", noCommandNamed("client|id")},
		{"app", "COMMAND", noCommandNamed("command")},
		{"app", "MULTI", noCommandNamed("multi")},
		{"app", "EVAL x 0", noCommandNamed("eval")},
		{"app", "NOSUCH", "ERR unknown command"},
		{"app", "RESET", ""},
		{"limits", "CL.WINDOW app:w 2 60", ""},
		{"limits", "CL.ALL 1 WINDOW app:w 5 60 THROTTLE app:2 5 1 60", ""},
		{"limits", "CL.ALL 1 WINDOW app:1 5 60 THROTTLE other 5 1 60", noKey},
		{"limits", "CL.ALL 1 WINDOW other 5 60 LOG THROTTLE app:2 5 1 60", noKey},
		{"limits", "CL.ALL -1 WINDOW app:1 5 60 THROTTLE app:2 5 1 60", noCommandNamed("cl.refund")},
		{"limits", "CL.ALL 1 WINDOW app:1 5 60 NONSENSE other 5 1 60", "ERR "},
		{"limits", "CL.THROTTLE seen:1 2 1 60", noKey},
		{"limits", "CL.BUCKET app:b 5 1 1 -3", noCommandNamed("cl.refund")},
		{"limits", "EXISTS seen:1", ""},
		{"limits", "TTL seen:1", ""},
		{"limits", "TTL other", noKey},
		{"limits", "DEL app:1 app:2", ""},
		{"limits", "DEL app:1 seen:1", noKey},
		{"limits", "CL.CHECK web-1 ip 1", ""},
		{"limits", "CL.CHECK other ip 1", noDomain},
		{"limits", "CL.CHECK web-1 COST -1 ip 1", noCommandNamed("cl.refund")},
		{"limits", "CL.CHECK web-1 -- cost -1", ""},
		{"limits", "CL.REPORT other OUTCOME status=401", noDomain},
		{"limits", "CL.REPORT web-1 OUTCOME status=401 COST -2", noCommandNamed("cl.refund")},
		{"limits", "CL.RULES LIST", noCommandNamed("cl.rules|list")},
		{"refund", "CL.BUCKET app:b 5 1 1 -3", ""},
		{"refund", "CL.CHECK other COST -1 ip 1", ""},
		{"news", "SUBSCRIBE news:1", ""},
		{"news", "SUBSCRIBE news:1 other", noChannel},
		{"news", "PSUBSCRIBE news:*", ""},
		{"news", "PSUBSCRIBE news:1", noChannel},
		{"news", "PSUBSCRIBE *", noChannel},
		{"news", "PUBLISH one x", ""},
		{"news", "PUBLISH two one", noChannel},
		{"sub", "CLIENT ID", ""},
		{"sub", "CLIENT KILL a", noCommandNamed("client|kill")},
		{"sub", "CONFIG GET port", ""},
		{"sub", "CONFIG SET port 1", noCommandNamed("config|set")},
	} {
		p := s.as(test.user)
		reply := p.ask(strings.Fields(test.command)...)
		text := ""
		if reply.kind == '-' {
			text = reply.text
		}
		if test.err == "" && text != "" || !strings.HasPrefix(text, test.err) {
			t.Errorf("%s: %s: the error is %q, want %q", test.user, test.command, text, test.err)
		}
		_ = p.Close()
	}
}

func noCommandNamed(name string) string { return strings.Replace(noCommand, "%s", name, 1) }

// TestCallerAs runs commands of a Caller as different users.
func TestCallerAs(t *testing.T) {
	s := withUsers("user app on >pw ~app:* +cl.throttle\n").start(t)
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if _, err := s.Authenticate(from, []byte("app"), []byte("wrong")); !errors.Is(err, ErrPassword) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := s.Authenticate(from, []byte("nobody"), []byte("pw")); !errors.Is(err, ErrPassword) {
		t.Errorf("an unknown user: %v", err)
	}
	login, err := s.Authenticate(from, []byte("app"), []byte("pw"))
	if err != nil || login.Name() != "app" {
		t.Fatalf("login %v, error %v", login, err)
	}
	c := s.NewCaller()
	defer c.Close()
	run := func(words ...string) string {
		t.Helper()
		reply, err := c.Run([]byte(request(words...)), nil)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		return string(reply)
	}
	ping := func(want string) {
		t.Helper()
		if got := run("PING"); got != want {
			t.Errorf("PING: %q, want %q", got, want)
		}
	}
	ping("+PONG\r\n")
	c.As(login)
	ping("-" + noCommandNamed("ping") + "\r\n")
	if got := run("CL.THROTTLE", "app:1", "2", "1", "60"); got != five(0, 3, 2, -1, 60) {
		t.Errorf("CL.THROTTLE: %q", got)
	}
	s.users.Replace(s.users.Get().Without("app"))
	ping("-NOAUTH Authentication required.\r\n")
	c.As(login)
	ping("-NOAUTH Authentication required.\r\n")
	long := append([]string{"CL.CHECK", "d"}, slices.Repeat([]string{"name", "value"}, 40)...) // more than clients may send without a login
	if got := run(long...); got != "-NOAUTH Authentication required.\r\n" {
		t.Errorf("a long command: %q", got)
	}
	c.As(Login{})
	ping("+PONG\r\n")
}
