package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/topology"
)

// alwaysPermitted lists the commands that Redis permits to every user.
var alwaysPermitted = map[string]bool{"auth": true, "hello": true, "quit": true, "reset": true}

// callOf returns a call of a command with a valid number of arguments, which are keys that match ~app:*.
func callOf(cmd *command) []string {
	call := strings.Split(cmd.name, "|")
	n := max(cmd.arity, -cmd.arity)
	for len(call) < n {
		call = append(call, "app:1")
	}
	return call
}

const oneCommand = "user app on >pw ~app:* +cl.throttle\n"

// TestOneCommandOnly checks that a user with one command and one key pattern cannot run any other command of any port, of a
// standalone server, a leader and a follower: it sends every command and subcommand of the table over a connection.
func TestOneCommandOnly(t *testing.T) {
	single := withUsers(oneCommand).start(t)
	checkOneCommand(t, single.commands[onRedis], single.dial)
	l := newLab(t, "a", "b")
	l.lead("a")
	for _, n := range l.nodes {
		set, err := acl.Parse(oneCommand, UserCatalog())
		if err != nil {
			t.Fatal(err)
		}
		n.users.Replace(set)
		for ln, profile := range map[net.Listener]profileSet{n.clients: onRedis, n.cluster: onCluster, n.leader: onRedis, n.sentinel: onSentinel} {
			checkOneCommand(t, n.commands[profile], func() *peer { return n.at(ln) })
		}
	}
}

func checkOneCommand(t *testing.T, r *registry, dial func() *peer) {
	t.Helper()
	tried, skipped := 0, 0
	login := func() *peer {
		p := dial()
		p.do("+OK\r\n", "AUTH", "app", "pw")
		return p
	}
	for _, cmd := range r.every {
		if cmd.name == "cl.throttle" || alwaysPermitted[cmd.name] || cmd.bySub != nil && cmd.run == nil {
			skipped++ // permitted, or a container, which cannot be called without a subcommand
			continue
		}
		p := login()
		if want := noCommandNamed(cmd.name); cmd.name == "exec" {
			p.fails("EXECABORT Transaction discarded because of: "+want, callOf(cmd)...)
		} else {
			p.fails(want, callOf(cmd)...)
		}
		_ = p.Close()
		tried++
	}
	if tried < 20 || skipped > 20 {
		t.Errorf("%d commands were tried, %d were not", tried, skipped)
	}
	if r.byName["cl.throttle"] == nil {
		return
	}
	p := login()
	if got := p.ask("CL.THROTTLE", "app:1", "500", "5", "60"); got.kind != '*' && !strings.HasPrefix(got.text, "MOVED") {
		t.Errorf("CL.THROTTLE of a permitted key: %s", got)
	}
	p.fails(noKey, "CL.THROTTLE", "other", "5", "5", "60")
	p.fails(noCommandNamed(refundName), "CL.THROTTLE", "app:1", "5", "5", "60", "-1")
}

// TestForwardedExecIsRechecked changes the permissions of a user between MULTI and EXEC on a follower.
func TestForwardedExecIsRechecked(t *testing.T) {
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["b"]
	set, err := acl.Parse("user app on >pw ~* +exists +ttl +ping +multi +exec\n", UserCatalog())
	if err != nil {
		t.Fatal(err)
	}
	n.users.Replace(set)
	p := n.at(n.clients)
	p.do("+OK\r\n", "AUTH", "app", "pw")
	p.do("+OK\r\n", "MULTI")
	for _, command := range []string{"TTL a", "EXISTS a", "PING", "TTL b"} {
		p.do("+QUEUED\r\n", words(command)...)
	}
	less, err := set.Get("app").Apply(UserCatalog(), "-exists")
	if err != nil {
		t.Fatal(err)
	}
	n.users.Replace(set.With(less))
	p.send(request("EXEC"))
	p.expect("*4\r\n:-2\r\n-" + string(denial{kind: deniedCommand}.queuedRefusal()) + "\r\n+PONG\r\n:-2\r\n")
}

// proposals is a UserLog. It applies a version to a store, unless another change is first.
type proposals struct {
	store *acl.Store
	first []string              // texts of changes that are applied before the next proposals
	err   atomic.Pointer[error] // of all proposals; nil if there is none
}

func (l *proposals) ProposeUsers(_ context.Context, base uint64, text string) (uint64, error) {
	if err := l.err.Load(); err != nil {
		return 0, *err
	}
	newest := l.store.Get().Version
	if len(l.first) > 0 {
		text, l.first, base = l.first[0], l.first[1:], base+1
	}
	set, err := acl.Parse(text, UserCatalog())
	if err != nil {
		return 0, err
	}
	set.Version = newest + 1
	l.store.Replace(set)
	if base != newest {
		return newest + 1, fmt.Errorf("version %d: %w", base, topology.ErrUsersChanged)
	}
	return set.Version, nil
}

// TestUserLog changes users through a log, while other changes are first.
func TestUserLog(t *testing.T) {
	log := &proposals{first: []string{"user eve on\n", "user eve off\nuser zoe on\n"}}
	s := setup{tune: func(s *Server) { log.store, s.users.log = s.users.Store, log }}.start(t)
	p := s.dial()
	p.do("+OK\r\n", "ACL", "SETUSER", "bob", "on", "nopass")
	p.do("*4\r\n$3\r\nbob\r\n$7\r\ndefault\r\n$3\r\neve\r\n$3\r\nzoe\r\n", "ACL", "USERS")
	p.do("+OK\r\n", "ACL", "SETUSER", "bob", "on")
	if v := log.store.Get().Version; v != 3 {
		t.Errorf("the version is %d, want 3: a change without effect is not proposed", v)
	}
	p.do(failure(errUsersInLog), "ACL", "SAVE")
	p.do(failure(errUsersInLog), "ACL", "LOAD")
	for err, want := range map[error]string{
		topology.ErrNoUsers: "ERR propose: all members must", topology.ErrUsersUnknown: "UNCERTAIN propose: leadership was lost",
		topology.ErrUnchanged: "TRYAGAIN propose: nothing was changed",
	} {
		err = fmt.Errorf("propose: %w", err)
		log.err.Store(&err)
		p.fails(want, "ACL", "DELUSER", "bob")
	}
}

// leaderlessUsers is a UserLog. Its first proposals fail because no node leads.
type leaderlessUsers struct {
	proposals
	failures int
}

func (l *leaderlessUsers) ProposeUsers(ctx context.Context, base uint64, text string) (uint64, error) {
	if l.failures--; l.failures >= 0 {
		return 0, topology.ErrNoLeader
	}
	return l.proposals.ProposeUsers(ctx, base, text)
}

// TestUsersWithoutLeader changes users while no node leads. The change is repeated for at most leader-wait.
func TestUsersWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPipedLab(t, "a", "b").nodes["b"]
		log := &leaderlessUsers{failures: 20}
		log.store = s.users.Store
		s.users.log = log
		p := s.dial()
		p.do("+OK\r\n", "ACL", "SETUSER", "bob", "on")
		log.failures = 1 << 30
		start := time.Now()
		p.fails("LOADING no node leads", "ACL", "DELUSER", "bob")
		if took := time.Since(start); took != s.leaderWait() {
			t.Errorf("the error took %v, want %v", took, s.leaderWait())
		}
	})
}
