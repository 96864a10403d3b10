package rediscell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/limiter"
)

// TestAllSorts imports keys of every kind that a source may hold.
func TestAllSorts(t *testing.T) {
	s := startRedis(t, "")
	ctx := context.Background()
	now := wallNow()
	tats := map[string]uint64{
		"cell":                   now + uint64(time.Minute) + 123_456_789,
		"dragonfly":              now + uint64(time.Minute) + 123_456_789,
		"":                       now + uint64(time.Hour),
		"binary \x00\r\n\xff":    now + uint64(time.Hour),
		"ключ":                   now + uint64(time.Hour),
		"292 years":              now + 1<<63 - 1,
		strings.Repeat("k", 1e5): now + uint64(time.Hour),
	}
	for key, tat := range tats {
		if key == "dragonfly" {
			writeDragonfly(ctx, s, key, tat)
		} else {
			writeCell(ctx, s, key, tat, now)
		}
	}
	for i := range 7 {
		s.do("SET", fmt.Sprint("counter", i), i, "EX", 60)
	}
	s.do("SET", "immortal", now+uint64(time.Hour))
	s.do("SET", "centuries", "18446744073709551000")
	s.do("SET", "past", now-uint64(100*time.Millisecond), "PX", 30_000)
	s.do("SET", "text", "hello", "EX", 60)
	s.do("SET", "large", strings.Repeat("1", 1<<20))
	s.do("SETRANGE", "bits", 100, "x")
	s.do("HSET", "hash", "a", "1")
	s.do("RPUSH", "list", "1700000000000000000")
	s.do("SADD", "set", "a")
	s.do("ZADD", "zset", "1", "a")
	s.do("XADD", "stream", "*", "a", "b")

	got, r := s.run(Config{Count: 3, Tolerance: time.Minute})
	got.wantTATs(t, tats, 0)
	if r.Imported < int64(len(tats)) || r.Scanned < int64(len(tats))+18 || r.Duration <= 0 {
		t.Errorf("too few keys or no duration in the report %+v", r)
	}
	sum := r.Imported
	for _, s := range r.Skipped {
		sum += s.Keys
	}
	if sum != r.Scanned {
		t.Errorf("the imported and the skipped keys of the report are %d; want %d, the number of scanned keys", sum, r.Scanned)
	}
	want := func(why reason, keys ...string) {
		t.Helper()
		got := skipped(r, why).Examples
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), keys) {
			t.Errorf("%s: the examples are %q; want %q", reasonNames[why], got, keys)
		}
	}
	want(noTTL, "centuries", "immortal")
	want(atRest, "past")
	want(notNumber, "bits", "large", "text")
	want(notString, "hash", "list", "set", "stream", "zset")
	if c := skipped(r, disagrees); c.Keys < 7 || len(c.Examples) != maxExamples || !strings.HasPrefix(c.Examples[0], "counter") {
		t.Errorf("skipped counters: %+v; want at least 7 keys and 5 examples", c)
	}
}

func TestManyKeys(t *testing.T) {
	s := startRedis(t, "")
	const n = 50_000
	tats := s.fill("user:", n)
	last, calls := int64(0), 0
	got, r := s.run(Config{Progress: func(done, total int64) {
		if done <= last || total != n {
			t.Errorf("progress of %d of %d keys after progress of %d; want an increase, and the total 50000", done, total, last)
		}
		last = done
		calls++
	}})
	got.wantTATs(t, tats, 0)
	if last != r.Scanned || calls < n/2/defaultCount {
		t.Errorf("the last progress is %d of %d keys, after %d calls; want all keys, and at least one call for every two pages", last, r.Scanned, calls)
	}
}

func TestMatch(t *testing.T) {
	s := startRedis(t, "")
	s.fill("other:", 3000)
	tats := s.fill("user:", 50)
	got, r := s.run(Config{Match: "user:*", Count: 10, Progress: func(_, total int64) {
		if total != 0 {
			t.Errorf("the total is %d, want 0 because only some keys match", total)
		}
	}})
	got.wantTATs(t, tats, 0)
	if r.Scanned != r.Imported {
		t.Errorf("keys that do not match were read: the report is %+v", r)
	}
}

func TestDatabases(t *testing.T) {
	s := startRedis(t, "")
	s.fill("zero:", 10)
	now := wallNow()
	tat := now + uint64(time.Hour)
	if _, err := s.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		p.Do(context.Background(), "SELECT", 3)
		writeCell(context.Background(), p, "three", tat, now)
		p.Do(context.Background(), "SELECT", 0)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.url += "/3"
	got, _ := s.run(Config{})
	got.wantTATs(t, map[string]uint64{"three": tat}, 0)
}

// TestClocks uses a limiter clock that differs from the clock of the source.
func TestClocks(t *testing.T) {
	s := startRedis(t, "")
	tats := s.fill("user:", 100)
	for _, behind := range []time.Duration{time.Hour, -time.Hour, -time.Duration(wallNow()) + time.Minute} {
		got, _ := s.run(Config{Now: func() uint64 { return wallNow() + uint64(behind) }})
		got.wantTATs(t, tats, behind)
	}
}

func TestSeveralSources(t *testing.T) {
	a, b := startRedis(t, ""), startRedis(t, "")
	tats := a.fill("a:", 100)
	for key, tat := range b.fill("b:", 200) {
		tats[key] = tat
	}
	got, r := a.run(Config{From: []string{b.url}, Progress: func(_, total int64) {
		if total != 300 {
			t.Errorf("the total is %d; want 300", total)
		}
	}})
	got.wantTATs(t, tats, 0)
	if r.Imported != r.Scanned {
		t.Errorf("some keys were not imported: the report is %+v", r)
	}
}

func TestEmptySource(t *testing.T) {
	got, r := startRedis(t, "").run(Config{})
	if len(got) != 0 || r.Scanned != 0 || r.Imported != 0 || r.Skipped != nil {
		t.Errorf("an empty source gives the records %v and the report %+v; want no keys", got, r)
	}
}

// TestGone reads three keys. One of them does not exist, as if it had been deleted after SCAN returned
// it.
func TestGone(t *testing.T) {
	s := startRedis(t, "")
	s.fill("user:", 10)
	src, err := dial(s.url, wallNow)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	entries, at, err := src.read(context.Background(), []string{"user:1", "never was", "user:2"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []reason{imported, absent, imported} {
		if _, got := fromRedis(entries[i], at, time.Second); got != want {
			t.Errorf("the entry %+v is classified as %q; want %q", entries[i], reasonNames[got], reasonNames[want])
		}
	}
}

func TestRunEndsEarly(t *testing.T) {
	s := startRedis(t, "")
	s.fill("user:", 5000)
	f := func(name string, want error, put func(n int) error) {
		t.Helper()
		n := 0
		r, err := Run(context.Background(), Config{From: []string{s.url}}, func(limiter.Record) error {
			n++
			return put(n)
		})
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), s.addr) {
			t.Errorf("%s: the error is %v; want %v from %s", name, err, want, s.addr)
		}
		if r.Scanned >= 5000 {
			t.Errorf("%s: %d keys were read, want fewer than all 5000", name, r.Scanned)
		}
	}
	f("put fails", limiter.ErrOutOfMemory, func(n int) error {
		if n == 100 {
			return limiter.ErrOutOfMemory
		}
		return nil
	})
	f("the source dies", nil, func(n int) error {
		if n == 100 {
			return s.cmd.Process.Kill()
		}
		return nil
	})
}

func TestInterrupted(t *testing.T) {
	s := startRedis(t, "")
	s.fill("user:", 5000)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := sink{}
	r, err := Run(ctx, Config{From: []string{s.url}, Count: 100}, func(rec limiter.Record) error {
		cancel()
		return got.put(rec)
	})
	if !errors.Is(err, context.Canceled) || len(got) == 0 || r.Imported >= 5000 {
		t.Errorf("an interrupted import returns %v after %d of 5000 keys, want context.Canceled after some of the keys", err, r.Imported)
	}
}

func TestConfig(t *testing.T) {
	f := func(want string, c Config) {
		t.Helper()
		if _, err := Run(context.Background(), c, sink{}.put); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v; want %q", c, err, want)
		}
	}
	from := []string{"redis://127.0.0.1:1?max_retries=-1"}
	f("no source", Config{})
	f("count -1", Config{From: from, Count: -1})
	f("count 10001", Config{From: from, Count: 10001})
	f("tolerance -1s", Config{From: from, Tolerance: -time.Second})
	f("connection refused", Config{From: from})
}
