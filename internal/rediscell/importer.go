package rediscell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// Config configures an import. From is required; the zero value of each other field is a
// usable default.
type Config struct {
	// From holds the URLs of the servers to read:
	// redis://[user:password@]host[:port][/db], or rediss:// for TLS. Several URLs are the
	// masters of one cluster.
	From []string
	// Match is a pattern of SCAN that keys must match; "" means all keys.
	Match string
	// Count is the COUNT option of SCAN, from 1 to 10000; 0 means 1000.
	Count int64
	// Tolerance is the maximum difference between the TAT and the TTL of a key; 0 means one
	// second.
	Tolerance time.Duration
	// Now returns the current limiter time for the records, in nanoseconds; nil means wall
	// time.
	Now func() uint64
	// Progress, if not nil, is called after each page that has keys, with the number of keys read so far and
	// the total number of keys. The total is an estimate, or 0 if it is unknown.
	Progress func(done, total int64)
}

const (
	defaultCount     = 1000
	maxCount         = 10000
	defaultTolerance = time.Second
)

// normal returns the Config with its defaults filled in, or an error if it is invalid.
func (c Config) normal() (Config, error) {
	if c.Count == 0 {
		c.Count = defaultCount
	}
	if c.Tolerance == 0 {
		c.Tolerance = defaultTolerance
	}
	if c.Now == nil {
		c.Now = func() uint64 { return uint64(time.Now().UnixNano()) }
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	switch {
	case len(c.From) == 0:
		return c, errors.New("no source is given")
	case c.Count < 1 || c.Count > maxCount:
		return c, fmt.Errorf("count %d must be between 1 and %d", c.Count, maxCount)
	case c.Tolerance < 0:
		return c, fmt.Errorf("tolerance %v must not be negative", c.Tolerance)
	}
	return c, nil
}

// run is the state of an import.
type run struct {
	Config
	put   func(limiter.Record) error
	tally tally
	total int64
}

// Run reads all keys of the sources, one source after the other, and calls put for each key
// that holds limiter state. put may retain the record. Failed commands are retried a few times,
// on a new connection. Run returns early if an error persists, if put returns an error, or if
// ctx is done. The Report covers the keys read until then.
//
// Errors identify a source by its address and never contain its password.
func Run(ctx context.Context, c Config, put func(limiter.Record) error) (Report, error) {
	started := time.Now()
	c, err := c.normal()
	if err != nil {
		return Report{}, err
	}
	r := &run{Config: c, put: put}
	err = r.importAll(ctx)
	return r.tally.report(time.Since(started)), err
}

// importAll checks every source before it reads the first one, so that configuration errors are
// reported before the import starts.
func (r *run) importAll(ctx context.Context) error {
	sources := make([]*source, 0, len(r.From))
	for _, url := range r.From {
		s, err := dial(url, r.Now)
		if err != nil {
			return err
		}
		defer s.close()
		keys, err := s.begin(ctx, len(r.From))
		if err != nil {
			return fmt.Errorf("connect to %s: %w", s.name, err)
		}
		sources = append(sources, s)
		r.total += keys
	}
	if r.Match != "" {
		r.total = 0 // the number of matching keys is unknown
	}
	for _, s := range sources {
		if err := r.importSource(ctx, s); err != nil {
			return fmt.Errorf("import from %s: %w", s.name, err)
		}
	}
	return nil
}

// importSource reads all keys of a source.
func (r *run) importSource(ctx context.Context, s *source) error {
	for cursor := uint64(0); ; {
		keys, next, err := s.client.Scan(ctx, cursor, r.Match, r.Count).Result()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if err := r.page(ctx, s, keys); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// page reads the keys of one page. A page may be empty.
func (r *run) page(ctx context.Context, s *source, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	entries, at, err := s.read(ctx, keys)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rec, why := fromRedis(e, at, r.Tolerance)
		if why == imported {
			if err := r.put(rec); err != nil {
				return fmt.Errorf("put %s: %w", quote(e.key), err)
			}
		}
		r.tally.add(why, e.key)
	}
	r.Progress(r.tally.scanned(), r.total)
	return nil
}
