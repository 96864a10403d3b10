package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStore_Match(t *testing.T) {
	s := mustNew(t, Default())
	mustSet(t, s, "requirepass", "hunter2", "timeout", "30", "maxmemory", "1mb")
	tests := []struct {
		patterns []string
		want     string
	}{
		{nil, ""},
		{[]string{"nope"}, ""},
		{[]string{"save"}, "save="},
		{[]string{"appendonly"}, "appendonly=no"},
		{[]string{"databases"}, "databases=1"},
		{[]string{"TIMEOUT"}, "timeout=30"},
		{[]string{"Max[M]*"}, "maxmemory=1048576 maxmemory-policy=noeviction maxmemory-clients=268435456"},
		{[]string{"slowlog*", "port", "s*en", "port"}, "port=6380 slowlog-log-slower-than=10000 slowlog-max-len=128"},
		{[]string{"requirepass"}, "requirepass="},
	}
	for _, tt := range tests {
		var got []string
		for _, p := range s.Match(tt.patterns...) {
			got = append(got, p.Name+"="+p.Value)
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("Match(%q) = %q, want %q", tt.patterns, g, tt.want)
		}
	}
}

func TestStore_MatchAll(t *testing.T) {
	s := mustNew(t, Default())
	mustSet(t, s, "requirepass", "hunter2")
	all := s.Match("*", "port")
	if len(all) != len(table) {
		t.Fatalf("Match(\"*\") returns %d of %d options, want all", len(all), len(table))
	}
	for i, p := range all {
		if p.Name != table[i].name || p.Value != table[i].public(s.Get()) || p.Value == "hunter2" {
			t.Errorf("option %d of Match(\"*\") is %v; want that of the table, without a secret", i, p)
		}
	}
}

func TestStore_Set(t *testing.T) {
	for name, text := range otherValue {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, Default())
			before := *s.Get()
			err := s.Set(pairs(strings.ToUpper(name), text))
			switch find(name).change {
			case immutable:
				wantError(t, err, "CONFIG SET failed (possibly related to argument '"+name+"') - can't set immutable config")
				wantSame(t, s.Get(), &before)
			case protected:
				wantError(t, err, "CONFIG SET failed (possibly related to argument '"+name+"') - can't set protected config")
				wantSame(t, s.Get(), &before)
			case confined:
				wantError(t, err, "CONFIG SET failed (possibly related to argument '"+name+"') - "+errLogFile.Error())
				wantSame(t, s.Get(), &before)
			default:
				if err != nil {
					t.Fatal(err)
				}
				wantText(t, s.Get(), name, text)
			}
		})
	}
}

func TestStore_SetSingleValues(t *testing.T) {
	s := mustNew(t, Default())
	before := *s.Get()
	mustSet(t, s, "save", "", "appendonly", "no", "databases", "1", "replica-read-only", "yes", "stop-writes-on-bgsave-error", "no")
	mustSet(t, s) // no pairs
	wantSame(t, s.Get(), &before)
}

// TestStore_SetRefusals expects the error texts of Redis 7.0.15. The reasons differ for
// options that Redis does not have, or that have different bounds in Redis.
func TestStore_SetRefusals(t *testing.T) {
	const failed = "CONFIG SET failed (possibly related to argument '%s') - %s"
	tests := []struct {
		pairs        []string
		name, reason string // an empty reason means that the option is unknown
	}{
		{[]string{"nope", "1"}, "nope", ""},
		{[]string{"No pe", "1", "nope2", "2"}, "No pe", ""},
		{[]string{"nope", "1", "port", "1"}, "nope", ""},
		{[]string{"port", "1"}, "port", "can't set immutable config"},
		{[]string{"dir", "/tmp", "nope", "2"}, "dir", "can't set protected config"},
		{[]string{"dir", "/tmp", "timeout", "a"}, "dir", "can't set protected config"},
		{[]string{"timeout", "a", "DBFILENAME", "x"}, "dbfilename", "can't set protected config"},
		{[]string{"logfile", "/etc/cron.d/x"}, "logfile", errLogFile.Error()},
		{[]string{"timeout", "1", "port", "1", "nope", "2"}, "port", "can't set immutable config"},
		{[]string{"timeout", "1", "timeout", "2"}, "timeout", "duplicate parameter"},
		{[]string{"TIMEOUT", "3", "timeout", "4"}, "timeout", "duplicate parameter"},
		{[]string{"timeout", "1", "timeout", "2", "nope", "1"}, "timeout", "duplicate parameter"},
		{[]string{"port", "1", "timeout", "1", "timeout", "2"}, "port", "can't set immutable config"},
		{[]string{"TIMEOUT", "x"}, "timeout", "argument couldn't be parsed into an integer"},
		{[]string{"timeout", "99999999999"}, "timeout", "argument must be between 0 and 2147483647 inclusive"},
		{[]string{"timeout", "2", "maxclients", "a", "maxmemory", "b"}, "maxclients", "argument couldn't be parsed into an integer"},
		{[]string{"maxmemory", "1xb"}, "maxmemory", "argument must be a memory value"},
		{[]string{"loglevel", "loud"}, "loglevel", "argument(s) must be one of the following: debug, verbose, notice, warning"},
		{[]string{"protected-mode", "1"}, "protected-mode", "argument must be 'yes' or 'no'"},
		{[]string{"save", "3600"}, "save", "Invalid save parameters"},
		{[]string{"snapshot-fallback", "yes"}, "snapshot-fallback", "can't set immutable config"},
		{[]string{"stop-writes-on-bgsave-error", "yes"}, "stop-writes-on-bgsave-error", "this server continues when it cannot save"},
		{[]string{"maxmemory-policy", "allkeys-lru"}, "maxmemory-policy",
			"argument(s) must be one of the following: noeviction, evict-smallest-debt (with LRU, LFU or random eviction a flood of new keys would reset limits)"},
		{[]string{"databases", "16"}, "databases", "this server has one database"},
		{[]string{"proto-max-bulk-len", "2mb"}, "proto-max-bulk-len", "proto-max-bulk-len must not be greater than client-query-buffer-limit"},
		{[]string{"client-query-buffer-limit", "16kb"}, "client-query-buffer-limit", "proto-max-bulk-len must not be greater than client-query-buffer-limit"},
		{[]string{"timeout", "1", "client-query-buffer-limit", "32kb", "proto-max-bulk-len", "1kb"}, "client-query-buffer-limit", "proto-max-inline-len must not be greater than client-query-buffer-limit"},
	}
	s := mustNew(t, Default())
	s.OnChange(func(old, next *Options) error {
		t.Error("the hook was called for an invalid change")
		return nil
	})
	before := *s.Get()
	for _, tt := range tests {
		want := fmt.Sprintf(failed, tt.name, tt.reason)
		if tt.reason == "" {
			want = "Unknown option or number of arguments for CONFIG SET - '" + tt.name + "'"
		}
		wantError(t, s.Set(pairs(tt.pairs...)), want)
		wantSame(t, s.Get(), &before)
	}
}

func TestStore_SetErrorTypes(t *testing.T) {
	s := mustNew(t, Default())
	if err, want := (*UnknownError)(nil), s.Set(pairs("Nope", "1")); !errors.As(want, &err) || err.Name != "Nope" {
		t.Errorf("Set of an unknown option: error %#v, want an UnknownError with its name", want)
	}
	if err, want := (*SetError)(nil), s.Set(pairs("PORT", "1")); !errors.As(want, &err) || err.Name != "port" {
		t.Errorf("Set of port: error %#v, want a SetError with its name", want)
	}
}

// TestStore_SetBothSidesOfAConflict checks that only the final values of a change are
// checked for conflicts, not intermediate values.
func TestStore_SetBothSidesOfAConflict(t *testing.T) {
	s := mustNew(t, Default())
	mustSet(t, s, "proto-max-bulk-len", "8mb", "client-query-buffer-limit", "16mb")
	mustSet(t, s, "client-query-buffer-limit", "64kb", "proto-max-bulk-len", "1kb")
	wantText(t, s.Get(), "client-query-buffer-limit", "65536")
}

func TestStore_GetStaysAsItWas(t *testing.T) {
	s := mustNew(t, Default())
	before := s.Get()
	mustSet(t, s, "timeout", "30")
	if before.Timeout != 0 || s.Get().Timeout != 30*time.Second {
		t.Errorf("timeout in the earlier result of Get = %v, in the new result = %v; want 0s and 30s", before.Timeout, s.Get().Timeout)
	}
}

func TestStore_OnChange(t *testing.T) {
	s := mustNew(t, Default())
	var calls []string
	refusal := error(nil)
	s.OnChange(func(old, next *Options) error { return errors.New("replaced before it is ever called") })
	s.OnChange(func(old, next *Options) error {
		if s.Get() != old {
			t.Error("the change took effect before the hook returned")
		}
		calls = append(calls, fmt.Sprint(old.MaxClients, next.MaxClients))
		return refusal
	})
	mustSet(t, s, "maxclients", "5", "timeout", "1")
	refusal = errors.New("no descriptors left")
	wantError(t, s.Set(pairs("timeout", "2", "maxclients", "6")),
		"CONFIG SET failed (possibly related to argument 'timeout') - no descriptors left")
	refusal = fmt.Errorf("apply: %w", &SetError{"maxclients", "no descriptors left"})
	wantError(t, s.Set(pairs("timeout", "2", "maxclients", "6")),
		"CONFIG SET failed (possibly related to argument 'maxclients') - no descriptors left")
	if want := []string{"10000 5", "5 6", "5 6"}; !slices.Equal(calls, want) {
		t.Errorf("calls of the hook = %q, want %q", calls, want)
	}
	if o := s.Get(); o.MaxClients != 5 || o.Timeout != time.Second {
		t.Errorf("a refused change took effect: %+v", *o)
	}
}

// TestStore_Concurrent changes two options together in several goroutines and checks that
// no reader sees only one of the changes. It is also a test for the race detector.
func TestStore_Concurrent(t *testing.T) {
	s := mustNew(t, Default())
	mustSet(t, s, "timeout", "1", "maxclients", "1")
	s.OnChange(func(old, next *Options) error { return nil })
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if o := s.Get(); int64(o.Timeout/time.Second) != int64(o.MaxClients) {
					t.Errorf("timeout is %v, maxclients is %d; want equal numbers, since each change sets both", o.Timeout, o.MaxClients)
				}
				if p := s.Match("timeout", "maxclients"); p[0].Value != p[1].Value {
					t.Errorf("Match = %v; want equal values, since each change sets both", p)
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 200 {
				n := fmt.Sprint(1 + w*1000 + i)
				if err := s.Set(pairs("maxclients", n, "timeout", n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

func TestStore_GetDoesNotAllocate(t *testing.T) {
	s := mustNew(t, Default())
	if n := testing.AllocsPerRun(100, func() { s.Get() }); n != 0 {
		t.Errorf("Get allocates %v times, want 0", n)
	}
}

func FuzzStore_Set(f *testing.F) {
	f.Add("timeout", "30", "maxclients", "5")
	f.Add("port", "1", "nope", "")
	f.Add("client-query-buffer-limit", "16kb", "PROTO-MAX-BULK-LEN", "1kb")
	f.Add("requirepass", "\x00", "requirepass", "")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		s := mustNew(t, Default())
		before := *s.Get()
		err := s.Set(pairs(name1, value1, name2, value2))
		if err != nil {
			wantSame(t, s.Get(), &before)
		}
		if err := s.Get().Validate(); err != nil {
			t.Errorf("after Set(%q %q %q %q) Validate returns %v", name1, value1, name2, value2, err)
		}
	})
}
