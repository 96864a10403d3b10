package importer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrURL is returned for a source that is not a URL of a server. It shows nothing of the
// URL, since what cannot be parsed may hold a password anywhere.
var ErrURL = errors.New("not a URL of a Redis server: it looks like redis://[user:password@]host[:port][/db], " +
	"or rediss:// for TLS, with special characters of the password percent-encoded")

// ErrPartial is returned when the sources are nodes of a Redis Cluster, but too few to
// hold all of its keys.
var ErrPartial = errors.New("a node of a Redis Cluster holds only a part of the keys: give all masters")

// quiet keeps the client library from writing to standard error: what matters of that
// comes back as errors too.
var quiet = sync.OnceFunc(logging.Disable)

// source is a server that is read.
type source struct {
	name   string // its address, without credentials
	client *redis.Client
	now    func() uint64
	ahead  int64 // how far our clock is ahead of the source's: the least upper bound known
}

// dial prepares a source. Nothing is sent yet.
func dial(url string, now func() uint64) (*source, error) {
	quiet()
	opts, err := redis.ParseURL(url)
	if err != nil || strings.Contains(url, "#") { // a bare # would cut the URL short
		return nil, ErrURL
	}
	opts.DisableIdentity = true // older servers would count it as an error
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &source{name: opts.Addr, client: redis.NewClient(opts), now: now, ahead: math.MaxInt64}, nil
}

func (s *source) close() { _ = s.client.Close() } // nothing is written that could be lost

// timeSamples is how often the clocks are compared first. The first reply includes the
// time to connect.
const timeSamples = 5

// begin checks that the source can be read, one of so many, and compares the clocks. It
// returns the number of keys that the source has.
func (s *source) begin(ctx context.Context, sources int) (keys int64, err error) {
	for range timeSamples {
		t, err := s.client.Time(ctx).Result()
		if err != nil {
			return 0, err
		}
		s.at(uint64(t.UnixNano()))
	}
	if err := s.checkCluster(ctx, sources); err != nil {
		return 0, err
	}
	return s.client.DBSize(ctx).Result()
}

// at notes that the source has just told its time. Its clock was read before now, so our
// clock is ahead of it by no more than the difference; the smallest difference seen is
// the closest to the truth.
func (s *source) at(told uint64) instant {
	s.ahead = min(s.ahead, int64(s.now()-told))
	return instant{source: told, ours: told + uint64(s.ahead)}
}

func (s *source) checkCluster(ctx context.Context, sources int) error {
	info, err := s.client.Info(ctx, "cluster").Result()
	if err != nil || infoField(info, "cluster_enabled") != "1" {
		return err
	}
	info, err = s.client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	masters, err := strconv.Atoi(infoField(info, "cluster_size"))
	if err != nil {
		return fmt.Errorf("read CLUSTER INFO: %w", err)
	}
	if masters != sources {
		return fmt.Errorf("%w (it has %d, and %d given)", ErrPartial, masters, sources)
	}
	return nil
}

// infoField returns what INFO says in the line of a field.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// read returns the present state of keys, and when it was read.
func (s *source) read(ctx context.Context, keys []string) ([]entry, instant, error) {
	pipe := s.client.Pipeline()
	told := pipe.Time(ctx)
	values := make([]*redis.StringCmd, len(keys))
	ttls := make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.GetRange(ctx, key, 0, valueBytes-1)
		ttls[i] = redis.NewIntCmd(ctx, "pttl", key) // as a number: a Duration would wrap
		_ = pipe.Process(ctx, ttls[i])              // only queues
	}
	_, _ = pipe.Exec(ctx) // every command has its own error, and some of those are expected
	if err := told.Err(); err != nil {
		return nil, instant{}, err
	}
	at := s.at(uint64(told.Val().UnixNano()))
	entries := make([]entry, len(keys))
	for i, key := range keys {
		e := entry{key: key, value: values[i].Val(), pttl: ttls[i].Val(), wrongType: isWrongType(values[i].Err())}
		if err := values[i].Err(); err != nil && !e.wrongType {
			return nil, instant{}, fmt.Errorf("read %s: %w", quote(key), err)
		}
		if err := ttls[i].Err(); err != nil {
			return nil, instant{}, fmt.Errorf("read the TTL of %s: %w", quote(key), err)
		}
		entries[i] = e
	}
	return entries, at, nil
}

func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE ") }
