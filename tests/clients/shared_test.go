package clienttests

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hour is a period so long that no unit is restored during a test.
const hour = "3600"

// behaviours are the operations that every library must support.
var behaviours = []struct {
	name string
	test func(*testing.T, *bench)
}{
	{"CLIENT INFO", testIntroduction},
	{"ping and echo", testPing},
	{"throttle", testThrottle},
	{"other algorithms", testOtherAlgorithms},
	{"errors", testErrors},
	{"pipeline", testPipeline},
	{"transaction", testTransaction},
	{"failed transaction", testFailedTransaction},
	{"watch", testWatch},
	{"one key, many callers", testConcurrency},
	{"connections are reused", testReuse},
	{"killed connections are replaced", testKill},
}

// TestLibraries runs the tests in behaviours with each library in each variant.
func TestLibraries(t *testing.T) {
	eachVariant(t, func(t *testing.T, lib library, s settings) {
		b := connect(t, lib, s)
		for _, behaviour := range behaviours {
			t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, b) })
		}
	})
}

// testIntroduction checks the server's information about the client.
func testIntroduction(t *testing.T, b *bench) {
	v, err := b.do(t.Context(), "CLIENT", "INFO")
	if err != nil {
		t.Fatal(err)
	}
	known := fields(v)
	for _, want := range []struct{ field, value string }{
		{"resp", strconv.Itoa(b.speaks())}, {"name", b.clientName}, {"user", "default"}, {"db", "0"},
	} {
		if got := known[want.field]; got != want.value {
			t.Errorf("CLIENT INFO: %s is %q, want %q", want.field, got, want.value)
		}
	}
	if got := known["lib-name"]; !strings.HasPrefix(got, b.sentName) || (got == "") != (b.sentName == "") {
		t.Errorf("CLIENT INFO: lib-name is %q, want %q", got, b.sentName)
	}
	if got := known["lib-ver"]; (got == "") != (b.sentName == "") {
		t.Errorf("CLIENT INFO: lib-ver is %q; it must be empty if, and only if, lib-name is", got)
	}
}

func testPing(t *testing.T, b *bench) {
	binary := "\x00\r\n$5\r\n\xff"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"PING"}, "PONG"},
		{[]string{"ping", "hello"}, "hello"},
		{[]string{"ECHO", binary}, binary},
		{[]string{"echo", ""}, ""},
	} {
		if got, err := b.do(t.Context(), test.args...); err != nil || got != test.want {
			t.Errorf("%q: got %#v, error %v; want %q", test.args, got, err, test.want)
		}
	}
}

// testThrottle exhausts a limit of 3 that restores one unit per minute, and sends more
// requests.
func testThrottle(t *testing.T, b *bench) {
	began := time.Now()
	for i, test := range []struct {
		quantity []string
		want     decision
	}{
		{nil, decision{0, 3, 2, -1, 60}},
		{[]string{"1"}, decision{0, 3, 1, -1, 120}},
		{[]string{"2"}, decision{1, 3, 1, 60, 120}},
		{nil, decision{0, 3, 0, -1, 180}},
		{nil, decision{1, 3, 0, 60, 180}},
		{[]string{"0"}, decision{0, 3, 0, -1, 180}},
		{[]string{"-1"}, decision{0, 3, 1, -1, 120}},
		{[]string{"4"}, decision{1, 3, 1, -1, 120}},
	} {
		args := append([]string{"CL.THROTTLE", "user:1", "2", "1", "60"}, test.quantity...)
		got, err := numbers(b.do(t.Context(), args...))
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if !got.matches(test.want, time.Since(began)) {
			t.Errorf("call %d: got %v, want %v", i, got, test.want)
		}
	}
}

// testOtherAlgorithms tests the reply formats that CL.THROTTLE does not have: six integers, nested
// arrays, and milliseconds.
func testOtherAlgorithms(t *testing.T, b *bench) {
	list := func(n ...any) []any { return n }
	for _, test := range []struct {
		command string
		want    any
	}{
		{"CL.WINDOW log 3 1d LOG MS", list(int64(0), int64(3), int64(2), int64(-1), int64(86_400_000))},
		{"CL.WINDOW fixed 3 36500d 4 FIXED", list(int64(1), int64(3), int64(3), int64(-1), int64(0))},
		{"CL.BUCKET bucket 10 1 1h 3", list(int64(0), int64(10), int64(7), int64(-1), int64(3*3600))},
		{"CL.LEAKY leaky 5 1 1h", list(int64(0), int64(5), int64(4), int64(-1), int64(3600), int64(0))},
		{"CL.ALL 4 BUCKET all:1 10 1 1h LEAKY all:2 3 1 1d", list(int64(1), int64(3), int64(3), int64(-1), int64(0),
			list(int64(0), int64(10), int64(10), int64(-1), int64(0)), list(int64(1), int64(3), int64(3), int64(-1), int64(0), int64(-1)))},
	} {
		got, err := b.do(t.Context(), strings.Fields(test.command)...)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, error %v; want %v", test.command, got, err, test.want)
		}
	}
}

// matches reports whether d equals want. The times in d may be shorter than in want by up to the
// passed time, rounded up to seconds.
func (d decision) matches(want decision, passed time.Duration) bool {
	late := int64(math.Ceil(passed.Seconds()))
	for i := 3; i < 5; i++ { // the times in seconds
		if want[i] > 0 && d[i] < want[i] && d[i] >= want[i]-late {
			want[i] = d[i]
		}
	}
	return d == want
}

// testErrors checks that the errors of the server are returned unchanged, and that the connection
// remains usable.
func testErrors(t *testing.T, b *bench) {
	for _, test := range []struct {
		command string
		want    string
	}{
		{"CL.THROTTLE key 1 1", "ERR wrong number of arguments for 'cl.throttle' command"},
		{"cl.throttle key 1 1 1 1 1", "ERR wrong number of arguments for 'cl.throttle' command"},
		{"CL.THROTTLE key ten 1 60", "ERR invalid max_burst 'ten': must be a 64-bit integer of at least 0"},
		{"CL.THROTTLE key 1 1.0 60", "ERR invalid count '1.0': must be a 64-bit integer of at least 1"},
		{"CL.THROTTLE key -1 1 60", "ERR invalid max_burst '-1': must be a 64-bit integer of at least 0"},
		{"CL.THROTTLE key 1 0 60", "ERR invalid count '0': must be a 64-bit integer of at least 1"},
		{"CL.THROTTLE key 1 1 9223372036854775808", "ERR invalid period '9223372036854775808': must be a 64-bit integer of at least 1, in seconds or with one of the units ms, s, m, h and d"},
		{"CL.NONSENSE key 1", "ERR unknown command 'CL.NONSENSE', with args beginning with: 'key' '1' "},
		{"EXEC", "ERR EXEC without MULTI"},
		{"AUTH wrong password", "WRONGPASS invalid username-password pair or user is disabled."},
	} {
		if strings.HasPrefix(test.command, "AUTH") {
			b.server.allow(`level=WARN msg="wrong password"`)
		}
		want := test.want
		if b.dropsERR {
			want = strings.TrimPrefix(want, "ERR ")
		}
		v, err := b.do(t.Context(), strings.Fields(test.command)...)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %#v, error %v; want the error %s", test.command, v, err, want)
		}
	}
	if v, err := b.do(t.Context(), "EXISTS", "key"); err != nil || v != int64(0) {
		t.Errorf("a refused command has created a key: EXISTS returns %#v, error %v", v, err)
	}
}

// testPipeline sends 100 decisions interleaved with errors and echoes, and checks that the replies
// are in order.
func testPipeline(t *testing.T, b *bench) {
	const rounds = 100
	var commands [][]string
	for i := range rounds {
		commands = append(commands,
			[]string{"CL.THROTTLE", "piped", strconv.Itoa(rounds - 1), "1", hour},
			[]string{"CL.THROTTLE", "piped", "x", "1", hour},
			[]string{"ECHO", strconv.Itoa(i)})
	}
	got := b.pipeline(t.Context(), commands)
	if len(got) != len(commands) {
		t.Fatalf("%d replies to %d commands: %v", len(got), len(commands), got)
	}
	for i := range rounds {
		d, err := numbers(got[3*i].value, got[3*i].err)
		if err != nil || d.limited() || d.remaining() != int64(rounds-1-i) {
			t.Fatalf("round %d: got %v, error %v; want an admission that leaves one unit less than the previous one", i, d, err)
		}
		if err := got[3*i+1].err; err == nil || !strings.Contains(err.Error(), "must be a 64-bit integer") {
			t.Fatalf("round %d: the invalid command returns the error %v, want one about a 64-bit integer", i, err)
		}
		if echo := got[3*i+2]; echo.err != nil || echo.value != strconv.Itoa(i) {
			t.Fatalf("round %d: ECHO returns %#v, want the number of the round", i, echo)
		}
	}
}

func testTransaction(t *testing.T, b *bench) {
	got, err := b.transaction(t.Context(), [][]string{
		{"CL.THROTTLE", "tx", "9", "1", hour},
		{"CL.THROTTLE", "tx", "9", "x", hour},
		{"CL.THROTTLE", "tx", "9", "1", hour, "2"},
		{"PING"},
	})
	if err != nil || len(got) != 4 {
		t.Fatalf("got the replies %v, want 4; error: %v", got, err)
	}
	for i, remaining := range map[int]int64{0: 9, 2: 7} {
		if d, err := numbers(got[i].value, got[i].err); err != nil || d.remaining() != remaining {
			t.Errorf("reply %d: got %v, error %v; want %d remaining", i, d, err, remaining)
		}
	}
	if err := got[1].err; err == nil || !strings.Contains(err.Error(), "must be a 64-bit integer") {
		t.Errorf("reply 1, to an invalid command: got the error %v, want one about a 64-bit integer", err)
	}
	if got[3] != (reply{value: "PONG"}) {
		t.Errorf("reply 3: got %v, want PONG", got[3])
	}
}

// testFailedTransaction checks that a transaction executes nothing if one of its commands cannot be
// queued, and that the connection is not in a transaction afterwards.
func testFailedTransaction(t *testing.T, b *bench) {
	got, err := b.transaction(t.Context(), [][]string{
		{"CL.THROTTLE", "aborted", "9", "1", hour},
		{"CL.THROTTLE", "aborted", "9"},
	})
	if err == nil {
		t.Errorf("the transaction returns no error, but %v", got)
	}
	for range poolSize {
		if v, err := b.do(t.Context(), "EXISTS", "aborted"); err != nil || v != int64(0) {
			t.Fatalf("EXISTS: got %#v, error %v; want 0", v, err)
		}
	}
}

// testWatch runs EXEC after another connection has accessed a watched key. EXEC must abort the
// transaction if, and only if, the access changed the key.
func testWatch(t *testing.T, b *bench) {
	for i, test := range []struct {
		beside string
		commit bool
	}{
		{"PING", true},
		{"CL.THROTTLE watched 0 1 3600", false}, // creates the key
		{"CL.THROTTLE watched 0 1 3600", true},  // limited, so nothing changes
		{"CL.THROTTLE watched 0 1 3600 0", true},
		{"DEL watched", false},
		{"DEL watched", true}, // the key does not exist
	} {
		err := b.pinned(t.Context(), func(do doFunc) error {
			own := fmt.Sprint("own:", i)
			if _, err := do(t.Context(), "WATCH", "watched", own); err != nil {
				return err
			}
			b.server.ask(t, strings.Fields(test.beside)...)
			for _, step := range []struct{ command, reply string }{
				{"MULTI", "OK"}, {"CL.THROTTLE " + own + " 1 1 60", "QUEUED"},
			} {
				if v, err := do(t.Context(), strings.Fields(step.command)...); err != nil || v != step.reply {
					return fmt.Errorf("%s: %v, %w", step.command, v, err)
				}
			}
			v, err := do(t.Context(), "EXEC")
			if err != nil {
				return fmt.Errorf("EXEC: %w", err)
			}
			if (v != nil) != test.commit {
				t.Errorf("step %d, %s: EXEC returns %#v; want null if the access has changed the key, otherwise replies", i, test.beside, v)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// testConcurrency has 16 callers charge one key. Exactly the limit must be admitted, with distinct
// remaining counts.
func testConcurrency(t *testing.T, b *bench) {
	const callers, calls, limit = 16, 25, 100
	var admitted [limit]atomic.Int32
	var callersDone sync.WaitGroup
	for range callers {
		callersDone.Go(func() {
			for range calls {
				d, err := numbers(b.do(t.Context(), "CL.THROTTLE", "shared", strconv.Itoa(limit-1), "1", hour))
				switch {
				case err != nil:
					t.Error(err)
					return
				case !d.limited():
					admitted[d.remaining()].Add(1)
				}
			}
		})
	}
	callersDone.Wait()
	for remaining := range admitted {
		if n := admitted[remaining].Load(); n != 1 {
			t.Errorf("%d calls were admitted with %d remaining, want 1", n, remaining)
		}
	}
}

// testReuse checks that consecutive calls share connections, and that the number of
// connections does not exceed the pool size.
func testReuse(t *testing.T, b *bench) {
	before := received(t, b.server)
	for i := range 100 {
		if _, err := b.do(t.Context(), "PING", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if opened := received(t, b.server) - before - 1; opened > int64(b.pool) {
		t.Errorf("100 calls have opened %d connections, more than the pool may hold", opened)
	}
	eventually(t, func(context.Context) error { // the server needs a moment to detect a close
		connected, err := strconv.Atoi(b.server.info(t, "connected_clients"))
		if err == nil && connected > b.pool+1 {
			err = fmt.Errorf("%d connections are open, want at most %d", connected, b.pool+1)
		}
		return err
	})
}

// received returns the number of connections that the server has accepted, including the connection
// that this function uses.
func received(t *testing.T, s *server) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s.info(t, "total_connections_received"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// testKill kills the client's connections. Calls may fail, but the client must reconnect under its
// name.
func testKill(t *testing.T, b *bench) {
	old := ids(t, b.server)
	if killed := b.server.ask(t, "CLIENT", "KILL", "TYPE", "normal").(int64); killed < 1 {
		t.Fatal("the client had no connection")
	}
	eventually(t, func(ctx context.Context) error {
		v, err := b.do(ctx, "CLIENT", "INFO")
		if err != nil {
			return err
		}
		client := fields(v)
		if slices.Contains(old, client["id"]) {
			return fmt.Errorf("connection %s is still open", client["id"])
		}
		if client["name"] != b.clientName || client["resp"] != strconv.Itoa(b.speaks()) {
			t.Errorf("wrong name or protocol of the new connection: %v", v)
		}
		return nil
	})
}

// ids returns the ids of the connections.
func ids(t *testing.T, s *server) (list []string) {
	t.Helper()
	for line := range strings.Lines(s.ask(t, "CLIENT", "LIST").(string)) {
		list = append(list, fields(line)["id"])
	}
	return list
}

// fields parses a line of CLIENT LIST.
func fields(line any) map[string]string {
	text, _ := line.(string)
	known := map[string]string{}
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		known[name] = value
	}
	return known
}
