package server

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
)

// fakeSnapshots implements Snapshots without writing anything. A save can be made to block or to fail.
type fakeSnapshots struct {
	fails   error         // result of a save
	entered chan struct{} // optional; if set, each save sends on entered, and then blocks
	release chan struct{} // a send on release unblocks the save
	loading atomic.Bool

	mu     sync.Mutex
	status persistence.Status
}

func (f *fakeSnapshots) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status.Saving {
		return persistence.ErrSaving
	}
	f.status.Saving, f.status.SaveStarted = true, time.Now()
	return nil
}

func (f *fakeSnapshots) finish() error {
	if f.entered != nil {
		f.entered <- struct{}{}
		<-f.release
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Saving, f.status.LastFailed = false, f.fails != nil
	if f.fails == nil {
		f.status.Saves++
		f.status.LastSave = time.Unix(1_700_000_000, 0)
	}
	return f.fails
}

func (f *fakeSnapshots) Save() error {
	if err := f.begin(); err != nil {
		return err
	}
	return f.finish()
}

func (f *fakeSnapshots) SaveInBackground() error {
	if err := f.begin(); err != nil {
		return err
	}
	go func() { _ = f.finish() }()
	return nil
}

func (f *fakeSnapshots) Status() persistence.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fakeSnapshots) Loading() bool { return f.loading.Load() }

// slowSnapshots returns a fakeSnapshots whose saves block until released.
func slowSnapshots() *fakeSnapshots {
	return &fakeSnapshots{entered: make(chan struct{}), release: make(chan struct{})}
}

const bgsaved = "+Background saving started\r\n"

func TestSave(t *testing.T) {
	t.Parallel()
	snapshots := &fakeSnapshots{}
	p := setup{snapshots: snapshots}.start(t).dial()
	p.do("+OK\r\n", "SAVE")
	p.do(":1700000000\r\n", "LASTSAVE")
	for i, words := range [][]string{{"BGSAVE"}, {"BGSAVE", "SCHEDULE"}, {"bgsave", "schedule"}} {
		p.do(bgsaved, words...)
		p.await("persistence", "rdb_saves", int64(i+2))
	}
	p.do(failure(errSyntax), "BGSAVE", "NOW")
	p.do(failure(errSyntax), "BGSAVE", "SCHEDULE", "x")
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "BGSAVE")
	p.do("+QUEUED\r\n", "LASTSAVE")
	p.do("*2\r\n"+bgsaved+":1700000000\r\n", "EXEC")
	p.do("+OK\r\n", "MULTI")
	p.do(failure(errNotInMulti), "SAVE")
}

func TestSaveFails(t *testing.T) {
	t.Parallel()
	f := func(reason error, want string) {
		t.Helper()
		p := setup{snapshots: &fakeSnapshots{fails: reason}}.start(t).dial()
		p.do(want, "SAVE")
		p.do(bgsaved, "BGSAVE")
		p.await("persistence", "rdb_bgsave_in_progress", 0)
		if got := p.info("persistence")["rdb_last_bgsave_status"]; got != "err" {
			t.Errorf("rdb_last_bgsave_status is %s, want err", got)
		}
	}
	f(errors.New("write snapshot: no space left on device"), "-ERR write snapshot: no space left on device\r\n")
	f(errors.New("a\r\nb"), "-ERR a  b\r\n")
}

// TestSaveDoesNotBlockOthers checks that other clients are served while SAVE blocks.
func TestSaveDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	snapshots := slowSnapshots()
	s := setup{snapshots: snapshots}.start(t)
	p := s.dial()
	f := func(reply string, words ...string) {
		t.Helper()
		saver := s.dial()
		saver.send(request(words...))
		<-snapshots.entered
		p.do(five(0, 2, 1, -1, 60), "CL.THROTTLE", words[0], "1", "1", "60")
		p.do("+OK\r\n", "MULTI")
		p.do("+QUEUED\r\n", "EXISTS", words[0])
		p.do("*1\r\n:1\r\n", "EXEC")
		p.do("+OK\r\n", "FLUSHALL")
		p.do(failure(errSaving), "SAVE")
		p.do(failure(errSaving), "BGSAVE")
		p.do(failure(errSaving), "BGSAVE", "SCHEDULE")
		p.await("persistence", "rdb_bgsave_in_progress", 1)
		snapshots.release <- struct{}{}
		saver.expect(reply)
		p.await("persistence", "rdb_bgsave_in_progress", 0)
	}
	f("+OK\r\n", "SAVE")
	f(bgsaved, "BGSAVE")
}

// TestSaverIsNotIdle checks that a client that waits for a snapshot does not count as idle.
func TestSaverIsNotIdle(t *testing.T) {
	t.Parallel()
	snapshots := slowSnapshots()
	s := setup{snapshots: snapshots}.start(t)
	p := s.dial()
	p.send(request("SAVE"))
	<-snapshots.entered
	o := options.Options{Timeout: time.Second}
	if why := s.sortedClients()[0].conn.overdue(&o, reaperRun{now: 1 << 30}); why != "" {
		t.Errorf("during the save, the reason for closing the client is %s, want none", why)
	}
	snapshots.release <- struct{}{}
	p.expect("+OK\r\n")
	if why := s.sortedClients()[0].conn.overdue(&o, reaperRun{now: 1 << 30}); why != "the client is idle" {
		t.Errorf("after the save, the reason for closing the client is %q, want that it is idle", why)
	}
}

// TestNowhereToSave checks that commands that save are refused if the server has no Snapshots.
func TestNowhereToSave(t *testing.T) {
	t.Parallel()
	p := setup{options: withSave}.start(t).dial()
	for _, call := range []string{"SAVE", "BGSAVE", "BGSAVE SCHEDULE", "SHUTDOWN", "SHUTDOWN SAVE"} {
		p.do(failure(errNoSnapshots), strings.Fields(call)...)
	}
	if at := p.ask("LASTSAVE").int(); at < time.Now().Unix()-3600 || at > time.Now().Unix() {
		t.Errorf("LASTSAVE is %d, want a time in the last hour", at)
	}
	p.do(five(0, 2, 1, -1, 60), "CL.THROTTLE", "k", "1", "1", "60")
	for name, want := range map[string]string{
		"loading": "0", "rdb_changes_since_last_save": "1", "rdb_bgsave_in_progress": "0",
		"rdb_last_bgsave_status": "ok", "rdb_last_bgsave_time_sec": "-1", "rdb_saves": "0",
	} {
		if got := p.info("persistence")[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// withSave makes SHUTDOWN save by default.
func withSave(o *options.Options) { o.Save = []options.SavePoint{{After: time.Hour, Changes: 1}} }

// stopping is a server that counts the calls of Stop. The field stops is the number of all calls, and the field saving
// is the number of calls that request a save.
type stopping struct {
	*testServer
	stops, saving atomic.Int32
}

func startStopping(t *testing.T, u setup) *stopping {
	s := &stopping{}
	u.stop = func(save bool) {
		s.stops.Add(1)
		if save {
			s.saving.Add(1)
		}
	}
	s.testServer = u.start(t)
	return s
}

// TestShutdownCommand sends each form of SHUTDOWN. It checks whether the state is saved before the call of Stop, and
// whether the argument of Stop requests another save. Stop must be called once, and no reply may be sent.
func TestShutdownCommand(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	f := func(call string, u setup, snapshots *fakeSnapshots, saves int64, save bool) {
		t.Helper()
		u.snapshots = snapshots
		s := startStopping(t, u)
		p := s.dial()
		p.send(request(strings.Fields(call)...) + ping)
		p.closed()
		q := s.dial()
		q.send(request("SHUTDOWN", "NOSAVE")) // only the first SHUTDOWN has an effect
		q.closed()
		if got := snapshots.Status().Saves; got != saves {
			t.Errorf("%s: %d snapshots were written, want %d", call, got, saves)
		}
		if s.stops.Load() != 1 || (s.saving.Load() == 1) != save {
			t.Errorf("%s: Stop was called %d times, want once; %d calls requested a save, want a save: %v", call, s.stops.Load(), s.saving.Load(), save)
		}
	}
	saves, none := setup{options: withSave}, setup{}
	f("SHUTDOWN", none, &fakeSnapshots{}, 0, false)
	f("SHUTDOWN", saves, &fakeSnapshots{}, 1, true)
	f("SHUTDOWN NOSAVE", saves, &fakeSnapshots{}, 0, false)
	f("SHUTDOWN save", none, &fakeSnapshots{}, 1, true)
	f("SHUTDOWN NOW SAVE", saves, &fakeSnapshots{}, 1, true)
	f("SHUTDOWN now FORCE", saves, &fakeSnapshots{}, 1, true)
	f("SHUTDOWN NOSAVE NOW FORCE", none, &fakeSnapshots{fails: broken}, 0, false)
	f("SHUTDOWN FORCE", saves, &fakeSnapshots{fails: broken}, 0, true)
	f("SHUTDOWN NOSAVE", saves, &fakeSnapshots{fails: broken}, 0, false)
}

func TestShutdownRefuses(t *testing.T) {
	t.Parallel()
	var log lockedLog
	snapshots := &fakeSnapshots{fails: errors.New("disk full")}
	s := startStopping(t, setup{options: withSave, snapshots: snapshots, log: log.logger()})
	f := func(want error, call string) {
		t.Helper()
		p := s.dial()
		p.do(failure(want), strings.Fields(call)...)
		p.do("+PONG\r\n", "PING")
	}
	f(errSyntax, "SHUTDOWN NONSENSE")
	f(errSyntax, "SHUTDOWN ABORT NOW")
	f(errSyntax, "SHUTDOWN SAVE NOSAVE")
	f(errNoShutdown, "SHUTDOWN ABORT")
	if log.String() != "" {
		t.Errorf("the log is not empty although no save was attempted: %s", log.String())
	}
	f(errShutdown, "SHUTDOWN")
	f(errShutdown, "SHUTDOWN SAVE")
	f(errShutdown, "SHUTDOWN NOW")
	if strings.Count(log.String(), "disk full") != 3 {
		t.Errorf("the log does not contain the reason (disk full) 3 times: %s", log.String())
	}
	p := s.dial()
	p.do("+OK\r\n", "MULTI")
	p.do(failure(errNotInMulti), "SHUTDOWN")
	if n := s.stops.Load(); n != 0 {
		t.Errorf("Stop was called %d times, want none", n)
	}
}

// TestShutdownServesWhileItSaves blocks the save made by SHUTDOWN. During the save, other clients are served, and a
// second SHUTDOWN stops the program immediately.
func TestShutdownServesWhileItSaves(t *testing.T) {
	t.Parallel()
	snapshots := slowSnapshots()
	s := startStopping(t, setup{snapshots: snapshots})
	p, q := s.dial(), s.dial()
	p.send(request("SHUTDOWN", "SAVE"))
	<-snapshots.entered
	q.do(five(0, 2, 1, -1, 60), "CL.THROTTLE", "k", "1", "1", "60")
	if s.stops.Load() != 0 {
		t.Error("Stop was called before the state was saved")
	}
	q.send(request("SHUTDOWN", "SAVE"))
	q.closed()
	if s.stops.Load() != 1 || s.saving.Load() != 1 {
		t.Errorf("after the second SHUTDOWN: Stop was called %d times, and %d calls requested a save; want one call, with save", s.stops.Load(), s.saving.Load())
	}
	snapshots.release <- struct{}{}
	p.closed()
}

// TestShutdownWhileLoading checks that SHUTDOWN does not save a partly loaded state over the
// snapshot.
func TestShutdownWhileLoading(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOSAVE"} {
		snapshots := &fakeSnapshots{}
		snapshots.loading.Store(true)
		s := startStopping(t, setup{options: withSave, snapshots: snapshots})
		p := s.dial()
		p.send(request(strings.Fields(call)...))
		p.closed()
		if s.stops.Load() != 1 || s.saving.Load() != 0 || snapshots.Status().Saves != 0 {
			t.Errorf("%s: Stop was called %d times, want once; %d calls requested a save, want none; %d snapshots were written, want none",
				call, s.stops.Load(), s.saving.Load(), snapshots.Status().Saves)
		}
	}
}

// TestLoading sends every command while the state is being loaded. Commands without the loading flag must be refused
// with the same error as in Redis, and must not reach the engine. Commands with the loading flag must not be refused.
func TestLoading(t *testing.T) {
	t.Parallel()
	snapshots := &fakeSnapshots{}
	snapshots.loading.Store(true)
	s := setup{snapshots: snapshots}.start(t)
	const refusal = "-LOADING Redis is loading the dataset in memory\r\n"
	for _, cmd := range s.commands[onRedis].every {
		if slices.Contains(notOneReply, cmd.name) || cmd.run == nil && cmd.parse == nil {
			continue
		}
		call := strings.Split(cmd.name, "|")
		for len(call) < max(cmd.arity, -cmd.arity) {
			call = append(call, "1")
		}
		p := s.dial()
		if refused := failure(replyError(p.ask(call...).text)) == refusal; refused == cmd.is(loading) {
			t.Errorf("%q: refused: %v, want the opposite", call, refused)
		}
		_ = p.Close()
	}
	if u := s.engine.Usage(); u.Keys+u.Changes+u.Hits != 0 || u.Misses != 1 { // WATCH looks up one key
		t.Errorf("commands reached the engine: %+v; want only the lookup of WATCH", u)
	}

	throttle := request("CL.THROTTLE", "k", "1", "1", "60")
	p, waiting := s.dial(), s.dial()
	p.send(throttle + request("ECHO", "x") + ping + throttle)
	p.expect(refusal + "$1\r\nx\r\n" + refusal + refusal)
	p.send(request("MULTI") + throttle + request("ECHO", "x") + request("EXEC"))
	p.expect("+OK\r\n" + refusal + "+QUEUED\r\n" + failure(errExecAbort))
	p.fails("ERR unknown command", "NONSENSE")
	p.fails("ERR wrong number", "CL.THROTTLE", "k")
	if got := p.info("errorstats")["errorstat_LOADING"]; got == "" {
		t.Error("INFO errorstats does not count the refusals")
	}
	waiting.do("+OK\r\n", "MULTI")
	waiting.do("+QUEUED\r\n", "ECHO", "x")

	snapshots.loading.Store(false)
	p.send(throttle + ping)
	p.expect(five(0, 2, 1, -1, 60) + "+PONG\r\n")
	waiting.do("+QUEUED\r\n", "PING")
	waiting.do("*2\r\n$1\r\nx\r\n+PONG\r\n", "EXEC")
}

func TestLoadingComesBehindThePassword(t *testing.T) {
	t.Parallel()
	snapshots := &fakeSnapshots{}
	snapshots.loading.Store(true)
	p := setup{options: withPassword, snapshots: snapshots}.start(t).dial()
	p.do(failure(errNoAuth), "PING")
	p.do("+OK\r\n", "AUTH", "secret")
	p.do(failure(errLoading), "PING")
}

// persistenceOf returns the fields of INFO persistence of a server whose snapshots have a status.
func persistenceOf(t *testing.T, status persistence.Status) map[string]string {
	t.Helper()
	return setup{snapshots: &fakeSnapshots{status: status}}.start(t).dial().info("persistence")
}

// TestInfoPersistence checks each field of INFO persistence, except those of TestInfoPersistence_Elapsed.
func TestInfoPersistence(t *testing.T) {
	t.Parallel()
	started := time.Now().Add(-10 * time.Hour)
	f := func(status persistence.Status, want string) {
		t.Helper()
		got := persistenceOf(t, status)
		for _, field := range strings.Fields(want) {
			name, text, _ := strings.Cut(field, "=")
			if got[name] != text {
				t.Errorf("%+v: %s is %q, want %q", status, name, got[name], text)
			}
		}
		if _, shown := got["loading_eta_seconds"]; shown != status.Loading {
			t.Errorf("%+v: the loading fields are shown: %v, want the opposite", status, shown)
		}
	}
	f(persistence.Status{LastSave: time.Unix(5, 0), LastDuration: -1},
		"loading=0 async_loading=0 rdb_changes_since_last_save=0 rdb_bgsave_in_progress=0 rdb_last_save_time=5 rdb_last_bgsave_status=ok "+
			"rdb_last_bgsave_time_sec=-1 rdb_current_bgsave_time_sec=-1 rdb_saves=0 rdb_last_load_keys_expired=0 rdb_last_load_keys_loaded=0")
	f(persistence.Status{LastDuration: 2900 * time.Millisecond, LastFailed: true, Changes: 7, Saves: 3, KeysLoaded: 4, KeysExpired: 2},
		"rdb_last_bgsave_status=err rdb_last_bgsave_time_sec=2 rdb_changes_since_last_save=7 rdb_saves=3 rdb_last_load_keys_loaded=4 rdb_last_load_keys_expired=2")
	f(persistence.Status{Saving: true, SaveStarted: started}, "rdb_bgsave_in_progress=1")
	f(persistence.Status{Loading: true, LoadStarted: started, LoadTotal: 4000, LoadDone: 999},
		"loading=1 loading_start_time="+strconv.FormatInt(started.Unix(), 10)+
			" loading_total_bytes=4000 loading_loaded_bytes=999 loading_loaded_perc=24.98")
	f(persistence.Status{Loading: true, LoadStarted: time.Now().Add(time.Hour)},
		"loading_total_bytes=0 loading_loaded_perc=0.00 loading_eta_seconds=1")
}

// TestInfoPersistence_Elapsed checks the fields that are computed from the time since a save or a load has started.
func TestInfoPersistence_Elapsed(t *testing.T) {
	t.Parallel()
	started := time.Now().Add(-10 * time.Hour)
	elapsed := func() int { return int(time.Since(started) / time.Second) }
	for _, tt := range []struct {
		field  string
		status persistence.Status
		want   func(elapsed int) int
	}{
		{"rdb_current_bgsave_time_sec", persistence.Status{Saving: true, SaveStarted: started}, func(elapsed int) int { return elapsed }},
		{
			"loading_eta_seconds", persistence.Status{Loading: true, LoadStarted: started, LoadTotal: 4000, LoadDone: 999},
			func(elapsed int) int { return elapsed * 3001 / 1000 },
		},
	} {
		least := tt.want(elapsed())
		got, err := strconv.Atoi(persistenceOf(t, tt.status)[tt.field])
		if most := tt.want(elapsed()); err != nil || got < least || got > most {
			t.Errorf("%s is %d, error %v, want %d to %d", tt.field, got, err, least, most)
		}
	}
}
