package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
)

// hashOfPW is the SHA-256 digest of "pw".
const hashOfPW = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"

// TestACLReplies checks the replies of ACL in RESP3.
func TestACLReplies(t *testing.T) {
	s := start(t, nil)
	p := s.dial()
	p.ask("HELLO", "3")
	for _, test := range []struct{ command, want string }{
		{"ACL WHOAMI", "default"},
		{"ACL LIST", "[user default on nopass ~* &* +@all alldomains]"},
		{"ACL SETUSER bob on >pw ~app:* %R~r:* &n +cl.throttle +client -client|kill domain:web", "OK"},
		{"ACL USERS", "[bob default]"},
		{"ACL GETUSER bob", "{flags:~(on) passwords:[" + hashOfPW + "] commands:-@all +cl.throttle +client -client|kill keys:~app:* %R~r:* channels:&n selectors:[] domains:domain:web}"},
		{"ACL GETUSER nobody", "''"},
		{"ACL LIST", "[user bob on #" + hashOfPW + " ~app:* %R~r:* resetchannels &n -@all +cl.throttle +client -client|kill domain:web user default on nopass ~* &* +@all alldomains]"},
		{"ACL DRYRUN bob cl.throttle app:1 1 1 1", "OK"},
		{"ACL DRYRUN bob cl.throttle other 1 1 1", "This user has no permissions to access the 'other' key"},
		{"ACL DRYRUN bob client kill x", "This user has no permissions to run the 'client|kill' command"},
		{"ACL DRYRUN bob nosuch", "ERR Command 'nosuch' not found"},
		{"ACL DRYRUN bob ttl", "ERR wrong number of arguments for 'ttl' command"},
		{"ACL DRYRUN nobody ttl k", "ERR User 'nobody' not found"},
		{"ACL CAT limits", "[cl.throttle cl.window cl.bucket cl.leaky cl.all cl.lease cl.lease.return cl.check cl.report]"},
		{"ACL CAT string", "[]"},
		{"ACL CAT nonsense", "ERR Unknown category 'nonsense'"},
		{"ACL SETUSER bob -nosuch", "ERR Error in ACL SETUSER modifier '-nosuch': Unknown command or category name in ACL"},
		{"ACL SETUSER bob nonsense", "ERR Error in ACL SETUSER modifier 'nonsense': Syntax error"},
		{"ACL SETUSER bob <hunter2", "ERR Error in ACL SETUSER modifier '<(hidden)': The password you are trying to remove from the user does not exist"},
		{"ACL SETUSER a\x00b on", "ERR Usernames can't contain spaces or null characters"},
		{"ACL GENPASS 0", string(errGenPass)},
		{"ACL GENPASS x", string(errNotInteger)},
		{"ACL SAVE", string(errNoUsersFile)},
		{"ACL LOAD", string(errNoUsersFile)},
		{"ACL LOG", "[]"},
		{"ACL DELUSER default bob", "ERR The 'default' user cannot be removed"},
		{"ACL DELUSER bob bob nobody", "1"},
		{"ACL DELUSER bob", "0"},
		{"ACL NOSUCH", "ERR unknown subcommand 'NOSUCH'. Try ACL HELP."},
	} {
		if got := p.ask(strings.Fields(test.command)...); got.kind == '-' && got.text != test.want || got.kind != '-' && got.brief() != test.want {
			t.Errorf("%s: got %s, want %s", test.command, got.brief(), test.want)
		}
	}
	if a, b := p.ask("ACL", "GENPASS").text, p.ask("ACL", "GENPASS", "5").text; len(a) != 64 || len(b) != 2 {
		t.Errorf("the passwords are %q and %q", a, b)
	}
	for _, command := range []string{"ACL SETUSER bob", "ACL DELUSER bob", "ACL SAVE", "ACL LOAD"} {
		p.ask("MULTI")
		p.ask(strings.Fields(command)...)
		if got := p.ask("EXEC"); len(got.list) != 1 || got.list[0].text != string(errUsersMulti) {
			t.Errorf("%s in a transaction: %s", command, got)
		}
	}
}

// TestACLLogin checks logins of enabled and disabled users, with right and wrong passwords.
func TestACLLogin(t *testing.T) {
	s := withUsers("user bob on >pw +@all ~* \nuser off >pw +@all\n").start(t)
	p := s.dial()
	for _, user := range []string{"off", "nobody", "BOB", ""} {
		p.fails("WRONGPASS", "AUTH", user, "pw")
	}
	p.fails("WRONGPASS", "HELLO", "3", "AUTH", "bob", "wrong")
	p.do("+OK\r\n", "AUTH", "bob", "pw")
	p.do("$3\r\nbob\r\n", "ACL", "WHOAMI")
	if line := p.ask("CLIENT", "INFO").text; !strings.Contains(line, " user=bob ") {
		t.Errorf("CLIENT INFO: %s", line)
	}
	p.do("+RESET\r\n", "RESET")
	p.do("$7\r\ndefault\r\n", "ACL", "WHOAMI")
	if got := p.ask("HELLO", "3", "AUTH", "bob", "pw"); got.kind != '%' {
		t.Errorf("HELLO: %s", got)
	}
	p.do("$3\r\nbob\r\n", "ACL", "WHOAMI")
	other := s.as("bob")
	p.do(":1\r\n", "CLIENT", "KILL", "USER", "bob")
	other.closed()
	p.fails("ERR No such user 'nobody'", "CLIENT", "KILL", "USER", "nobody")
}

// TestACLDefaultUser checks that the user "default" follows requirepass until a rule is applied to it.
func TestACLDefaultUser(t *testing.T) {
	s := start(t, withPassword)
	s.opts.OnChange(s.CheckOptions)
	p := s.dial()
	p.fails("NOAUTH", "PING")
	p.do("+OK\r\n", "AUTH", "secret")
	p.do("+OK\r\n", "CONFIG", "SET", "requirepass", "other")
	s.dial().do("+OK\r\n", "AUTH", "default", "other")
	p.do("+OK\r\n", "ACL", "SETUSER", "default", "<other", ">third", "-cl.window")
	q := s.dial()
	q.fails("WRONGPASS", "AUTH", "other")
	q.do("+OK\r\n", "AUTH", "third")
	p.fails(noCommandNamed("cl.window"), "CL.WINDOW", "k", "1", "60")
	p.fails("ERR CONFIG SET failed (possibly related to argument 'requirepass') - ", "CONFIG", "SET", "requirepass", "fourth")
	p.do("+OK\r\n", "ACL", "SETUSER", "default", "off")
	s.dial().fails("WRONGPASS", "AUTH", "third")
	s.dial().fails("NOAUTH", "PING")
}

// TestACLDeletedUser checks that the connections of a deleted user are closed, including that of the user that deletes
// itself and that of a subscriber, and that a subscription that is no longer permitted closes its connection.
func TestACLDeletedUser(t *testing.T) {
	s := withUsers("user bob on >pw +@all ~* &*\nuser eve on >pw +@all &*\n").start(t)
	p, idle, subscriber, eve := s.as("bob"), s.as("bob"), s.as("bob"), s.as("eve")
	subscriber.ask("SUBSCRIBE", "a")
	eve.ask("SUBSCRIBE", "news")
	admin := s.dial()
	admin.do("+OK\r\n", "ACL", "SETUSER", "eve", "resetchannels", "&other")
	eve.closed()
	p.do(":1\r\n", "ACL", "DELUSER", "bob")
	p.closed()
	idle.closed()
	subscriber.closed()
	s.dial().fails("WRONGPASS", "AUTH", "bob", "pw")
}

// TestACLRecreatedUser replaces the users by a set in which a user was deleted and created again, as a node of a cluster does
// that has missed the version between. The logins of the earlier user end.
func TestACLRecreatedUser(t *testing.T) {
	s := withUsers("user bob on >pw +ping +subscribe &*\n").start(t)
	p, subscriber := s.as("bob"), s.as("bob")
	subscriber.ask("SUBSCRIBE", "news")
	login, ok := s.Authenticate(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, []byte("bob"), []byte("pw"))
	if ok != nil || !s.MayRun(login, "ping") {
		t.Fatalf("login: %v, may run PING: %t", ok, s.MayRun(login, "ping"))
	}
	c := s.NewCaller()
	defer c.Close()
	old := s.users.Get()
	s.users.Replace(old.Without("bob").With(old.Get("bob")))
	p.closed()
	subscriber.closed()
	if s.MayRun(login, "ping") {
		t.Error("the login of a deleted user may run commands")
	}
	c.As(login)
	if reply, err := c.Run([]byte(ping), nil); err != nil || !strings.HasPrefix(string(reply), "-NOAUTH") {
		t.Errorf("PING of the login of a deleted user: %q, error %v", reply, err)
	}
	s.as("bob").do("+PONG\r\n", "PING")
}

// TestACLMonitorRevoked checks that a MONITOR that is no longer permitted is closed.
func TestACLMonitorRevoked(t *testing.T) {
	s := withUsers("user bob on >pw +monitor\nuser eve on >pw +monitor +ping\n").start(t)
	bob, eve, admin := s.as("bob"), s.as("eve"), s.dial()
	bob.do("+OK\r\n", "MONITOR")
	eve.do("+OK\r\n", "MONITOR")
	admin.do("+OK\r\n", "ACL", "SETUSER", "bob", "-monitor")
	bob.closed()
	admin.do("+PONG\r\n", "PING")
	if line := eve.read().text; !strings.Contains(line, `"PING"`) {
		t.Errorf("the other MONITOR shows %q", line)
	}
}

// TestACLMonitorRace registers monitors whose users were changed after MONITOR was permitted, and before the client was
// registered: closeRevoked did not find them.
func TestACLMonitorRace(t *testing.T) {
	s := withUsers("user bob on >pw +monitor\n").start(t)
	before := s.users.Get()
	revoked, err := before.Get("bob").Apply(s.users.catalog, "-monitor")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		now    *acl.Set
		closed bool
	}{
		"unchanged": {before, false}, "revoked": {before.With(revoked), true}, "deleted": {before.Without("bob"), true},
		"created again": {before.Without("bob").With(before.Get("bob")), true},
	} {
		for _, followed := range []bool{false, true} { // another command has applied the change before the registration
			c := newClient(s.Server, noConn{}, &redisListener)
			c.session.become(before.Get("bob"))
			c.session.users, c.session.monitoring = before, true
			c.conn.output.feed = newFeed(c.conn.output.usage, true)
			s.users.Replace(test.now)
			if followed {
				c.session.follow(s.users.Get())
			}
			c.conn.output.registerMonitor()
			if got := c.conn.closing.hungUp.Load(); got != test.closed {
				t.Errorf("%s, change applied %t: closed %t, want %t", name, followed, got, test.closed)
			}
			s.monitors.remove(&c.conn.output)
			c.conn.output.feed.release()
			(&Caller{client: c}).Close()
			s.users.Replace(before)
		}
	}
}

// TestACLSubscribeRace checks that a client is closed if its user loses the permission for a channel after SUBSCRIBE was
// permitted, and before the subscription is registered.
func TestACLSubscribeRace(t *testing.T) {
	s := withUsers("").start(t)
	parse := func(text string) *acl.Set {
		t.Helper()
		set, err := acl.Parse(text, UserCatalog())
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	before, after := parse("user bob on nopass &news &log +subscribe\n"), parse("user bob on nopass &log +subscribe\n")
	for _, test := range []struct {
		channel  string
		now      *acl.Set
		followed bool // another command has applied the change before the subscription is registered
		closed   bool
	}{
		{"news", before, false, false},
		{"log", after, false, false},
		{"log", after, true, false},
		{"news", after, false, true},
		{"news", after, true, true},
	} {
		c := newClient(s.Server, noConn{}, &redisListener)
		c.session.become(before.Get("bob"))
		c.session.users = before
		c.session.subscriptions.channels, c.session.subscriptionsChanged = []string{test.channel}, true
		s.users.Replace(test.now)
		if test.followed {
			c.session.follow(s.users.Get())
		}
		c.conn.output.registerSubscriptions()
		if got := c.conn.closing.hungUp.Load(); got != test.closed {
			t.Errorf("channel %s, change applied %t: closed %t, want %t", test.channel, test.followed, got, test.closed)
		}
		s.broker.remove(&c.conn.output)
		(&Caller{client: c}).Close()
	}
}

// TestACLChangeApplies checks that a change of a user applies to the next command of its connections.
func TestACLChangeApplies(t *testing.T) {
	s := withUsers("user bob on >pw +ping\n").start(t)
	p, admin := s.as("bob"), s.dial()
	p.do("+PONG\r\n", "PING")
	admin.do("+OK\r\n", "ACL", "SETUSER", "bob", "-ping", "+ttl", "+multi", "+exec", "+exists", "~a")
	p.fails(noCommandNamed("ping"), "PING")
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "TTL", "a")
	p.do("+QUEUED\r\n", "EXISTS", "a")
	p.do("+QUEUED\r\n", "TTL", "a")
	admin.do("+OK\r\n", "ACL", "SETUSER", "bob", "-exists")
	p.send(request("EXEC"))
	p.expect("*3\r\n:-2\r\n-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand\r\n:-2\r\n")
	p.do("+OK\r\n", "MULTI")
	p.fails(noKey, "TTL", "b")
	p.fails("EXECABORT", "EXEC")
}

// TestACLLog checks the entries of ACL LOG, and the counters in INFO.
func TestACLLog(t *testing.T) {
	s := withUsers("user bob on >pw +ttl +multi +exec ~a\n").start(t)
	p, admin := s.as("bob"), s.dial()
	p.fails("NOPERM", "PING")
	p.fails("NOPERM", "PING")
	p.fails("NOPERM", "TTL", "key")
	p.do("+OK\r\n", "MULTI")
	p.fails("NOPERM", "TTL", "key")
	p.fails("EXECABORT", "EXEC")
	p.fails("WRONGPASS", "AUTH", "eve", "hunter2")
	admin.ask("HELLO", "3")
	log := admin.ask("ACL", "LOG")
	command := regexp.MustCompile(` cmd=\S+`)
	var got []string
	for _, entry := range log.list {
		text := entry.brief()
		got = append(got, strings.Join(strings.Fields(text)[:5], " ")+command.FindString(text))
		if !strings.Contains(text, "age-seconds:") || !strings.Contains(text, "client-info:id=") {
			t.Errorf("the entry is %s", text)
		}
	}
	want := []string{
		"{count:1 reason:auth context:toplevel object:AUTH username:eve cmd=auth",
		"{count:1 reason:key context:multi object:key username:bob cmd=ttl",
		"{count:1 reason:key context:toplevel object:key username:bob cmd=ttl",
		"{count:2 reason:command context:toplevel object:ping username:bob cmd=ping",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log is %q, want %q", got, want)
	}
	if n := len(admin.ask("ACL", "LOG", "1").list); n != 1 {
		t.Errorf("ACL LOG 1 returns %d entries", n)
	}
	for name, want := range map[string]int64{"acl_access_denied_cmd": 2, "acl_access_denied_key": 2, "acl_access_denied_auth": 1, "acl_access_denied_channel": 0} {
		if n := admin.count("stats", name); n != want {
			t.Errorf("INFO: %s is %d, want %d", name, n, want)
		}
	}
	admin.do("+OK\r\n", "ACL", "LOG", "RESET")
	if n := len(admin.ask("ACL", "LOG").list); n != 0 {
		t.Errorf("ACL LOG returns %d entries after a reset", n)
	}
	for _, limit := range []int{5, 2, 0} {
		admin.do("+OK\r\n", "CONFIG", "SET", "acllog-max-len", strconv.Itoa(limit))
		for i := range 8 {
			p.fails("NOPERM", "TTL", strings.Repeat("k", 1+i))
		}
		if n := len(admin.ask("ACL", "LOG", "1000").list); n != limit {
			t.Errorf("ACL LOG returns %d entries, want %d", n, limit)
		}
	}
}

// TestACLLogMerge checks that a denial is counted in the entry of an equal denial that is at most 60 s old, which becomes the
// newest entry, and that the number of entries is bounded.
func TestACLLogMerge(t *testing.T) {
	const length = 128
	var l aclLog
	start := time.Now()
	add := func(seconds int, object string) {
		l.add(aclEntry{aclKey{deniedKey, inToplevel, object, "bob"}, 1, start.Add(time.Duration(seconds) * time.Second), ""}, length)
	}
	for _, e := range []struct {
		seconds int
		object  string
	}{{0, "a"}, {10, "b"}, {60, "a"}, {120, "a"}, {121, "b"}, {181, "a"}} {
		add(e.seconds, e.object)
	}
	var got []string
	for _, e := range l.newest(10) {
		got = append(got, fmt.Sprint(e.object, e.count, "@", e.at.Sub(start).Seconds()))
	}
	if want := "a1@181 b1@121 a3@120 b1@10"; strings.Join(got, " ") != want {
		t.Errorf("the entries are %q, want %q", got, want)
	}
	for i := range 3 * length {
		add(200, fmt.Sprint(i))
	}
	if n := len(l.newest(1000)); n != length || l.newest(1)[0].object != fmt.Sprint(3*length-1) {
		t.Errorf("%d entries, the newest %+v", n, l.newest(1))
	}
}

// TestInfoUsers checks the number of users and their version, which each change increases.
func TestInfoUsers(t *testing.T) {
	s := withUsers("user bob on >pw +ping\n").start(t)
	p := s.dial()
	check := func(users, version int64) {
		t.Helper()
		if n, v := p.count("users", "users"), p.count("users", "users_version"); n != users || v != version {
			t.Errorf("INFO shows %d users of version %d, want %d of version %d", n, v, users, version)
		}
		if got := s.Statistics(); int64(got.Users) != users || int64(got.UsersVersion) != version {
			t.Errorf("the statistics have %d users of version %d, want %d of version %d", got.Users, got.UsersVersion, users, version)
		}
	}
	check(2, 0)
	p.do("+OK\r\n", "ACL", "SETUSER", "eve", "on")
	check(3, 1)
	p.do("+OK\r\n", "ACL", "SETUSER", "eve", "on") // changes nothing
	p.do(":1\r\n", "ACL", "DELUSER", "bob")
	check(2, 2)
}

// TestACLSave_Default checks the warning about a saved file that excludes requirepass.
func TestACLSave_Default(t *testing.T) {
	var log lockedLog
	const warning = "remove requirepass and requirepass-file before the next start"
	s := setup{log: log.logger(), options: func(o *options.Options) {
		withPassword(o)
		o.ACLFile = filepath.Join(t.TempDir(), "users.acl")
	}}.start(t)
	p := s.dial()
	p.do("+OK\r\n", "AUTH", "secret")
	p.do("+OK\r\n", "ACL", "SAVE")
	if strings.Contains(log.String(), warning) {
		t.Errorf("the file does not define the user default, but the log has the warning:\n%s", log.String())
	}
	p.do("+OK\r\n", "ACL", "SETUSER", "default", ">other")
	p.do("+OK\r\n", "ACL", "SAVE")
	if !strings.Contains(log.String(), warning) {
		t.Errorf("the file defines the user default, but the log has no warning:\n%s", log.String())
	}
}

// TestACLFile saves the users to a file and loads them again. A file that is not valid changes nothing.
func TestACLFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	s := start(t, func(o *options.Options) { o.ACLFile = path })
	p := s.dial()
	p.do("+OK\r\n", "ACL", "SETUSER", "bob", "on", ">pw", "+ping")
	p.do("+OK\r\n", "ACL", "SAVE")
	text, err := os.ReadFile(path)
	if want := "user bob on #" + hashOfPW + " resetchannels -@all +ping\n"; err != nil || string(text) != want {
		t.Fatalf("the file contains %q, error %v, want %q", text, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, error %v", info.Mode(), err)
	}
	bob := s.as("bob")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("user eve on >pw\nuser bob on hunter2\n")
	got := p.ask("ACL", "LOAD").text
	if !strings.HasPrefix(got, "ERR the users were not changed: ") || !strings.Contains(got, "line 2: user bob: rule 2") || strings.Contains(got, "hunter2") {
		t.Errorf("ACL LOAD: %s", got)
	}
	bob.do("+PONG\r\n", "PING")
	write("user eve on >pw +ping\n")
	p.do("+OK\r\n", "ACL", "LOAD")
	bob.closed()
	s.as("eve").do("+PONG\r\n", "PING")
	if _, err := ReadUsers(path, "secret"); err != nil {
		t.Errorf("read the users: %v", err)
	}
	write("user default on >pw\n")
	if _, err := ReadUsers(path, "secret"); !errors.Is(err, errUsersPassword) {
		t.Errorf("the password of the user default is defined twice: %v", err)
	}
}

// TestACLDeletedUserLog checks that the log names the deleted users, each once and without those that did not exist.
func TestACLDeletedUserLog(t *testing.T) {
	var log lockedLog
	s := setup{log: log.logger(), users: "user bob on\nuser eve on\n"}.start(t)
	s.dial().do(":2\r\n", "ACL", "DELUSER", "eve", "nobody", "bob", "eve")
	if want := `msg="users were deleted" users=2 names="[bob eve]" by=default addr=127.0.0.1:`; !strings.Contains(log.String(), want) {
		t.Errorf("the log is %s, want %s", log.String(), want)
	}
}

// TestWarnIfOpened checks the warning about a server that accepts all clients: once for each change with this effect.
func TestWarnIfOpened(t *testing.T) {
	var log lockedLog
	s := setup{log: log.logger(), options: func(o *options.Options) {
		withPassword(o)
		o.ProtectedMode = false
	}}.start(t)
	const warning = "the server accepts all clients, from any address and without a password"
	p := s.dial()
	p.do("+OK\r\n", "AUTH", "secret")
	for n, change := range [][]string{
		{"ACL", "SETUSER", "default", "nopass"}, {"ACL", "SETUSER", "default", ">pw"},
		{"ACL", "SETUSER", "default", "nopass"}, {"CONFIG", "SET", "protected-mode", "yes"}, {"CONFIG", "SET", "protected-mode", "no"},
	} {
		p.do("+OK\r\n", change...)
		ticks := s.ticks.Load()
		if !eventually(func() bool { return s.ticks.Load() >= ticks+2 }) {
			t.Fatal("the reaper has stopped")
		}
		if got, want := strings.Count(log.String(), warning), []int{1, 1, 2, 2, 3}[n]; got != want {
			t.Errorf("after %q the log has the warning %d times, want %d:\n%s", change, got, want, log.String())
		}
	}
}
