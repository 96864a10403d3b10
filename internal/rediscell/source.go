package rediscell

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

// ErrURL is returned for a source that is not a URL of a server. It contains no part of the
// URL, since a URL that cannot be parsed may contain a password anywhere.
var ErrURL = errors.New("not a URL of a Redis server: use redis://[user:password@]host[:port][/db], " +
	"or rediss:// for TLS, with special characters of the password percent-encoded")

// ErrPartial is returned if the sources are nodes of a Redis Cluster, but do not hold all of
// its keys.
var ErrPartial = errors.New("a node of a Redis Cluster holds only a part of the keys: specify the URLs of all masters")

// quiet disables the client library's logging to standard error. Relevant messages are
// also returned as errors.
var quiet = sync.OnceFunc(logging.Disable)

// source is a server to read from.
type source struct {
	name   string // its address, without credentials
	client *redis.Client
	now    func() uint64
	ahead  int64 // lowest upper bound so far of the difference: local clock minus clock of the source
}

// dial creates a client of a source. It does not connect.
func dial(url string, now func() uint64) (*source, error) {
	quiet()
	opts, err := redis.ParseURL(url)
	if err != nil || strings.Contains(url, "#") { // the URL parser would ignore everything after an unescaped #
		return nil, ErrURL
	}
	opts.DisableIdentity = true // older servers would count CLIENT SETINFO as an error
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &source{name: opts.Addr, client: redis.NewClient(opts), now: now, ahead: math.MaxInt64}, nil
}

func (s *source) close() { _ = s.client.Close() } // there are no writes that could be lost

// timeSamples is the initial number of clock measurements. The first one includes the time to
// connect.
const timeSamples = 5

// begin checks that the source can be read, compares the clocks, and returns the number of
// keys of the source. The sources parameter is the number of all sources.
func (s *source) begin(ctx context.Context, sources int) (keys int64, err error) {
	for range timeSamples {
		t, err := s.client.Time(ctx).Result()
		if err != nil {
			return 0, err
		}
		s.recordTime(uint64(t.UnixNano()))
	}
	if err := s.checkCluster(ctx, sources); err != nil {
		return 0, err
	}
	return s.client.DBSize(ctx).Result()
}

// recordTime records a TIME reply that was just received, and returns the time in the reply on both
// clocks. The source read its clock before the reply arrived, so the local clock is ahead of the
// source's clock by at most the difference between the current local time and the time in the
// reply. The smallest difference of all replies is the best bound.
func (s *source) recordTime(serverTime uint64) instant {
	s.ahead = min(s.ahead, int64(s.now()-serverTime))
	return instant{source: serverTime, ours: serverTime + uint64(s.ahead)}
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
		return fmt.Errorf("%w (masters in the cluster: %d, URLs given: %d)", ErrPartial, masters, sources)
	}
	return nil
}

// infoField returns the value of a field in a reply of INFO, or "".
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// read returns the current state of keys, and the time at which it was read.
func (s *source) read(ctx context.Context, keys []string) ([]entry, instant, error) {
	pipe := s.client.Pipeline()
	serverTime := pipe.Time(ctx)
	values := make([]*redis.StringCmd, len(keys))
	ttls := make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.GetRange(ctx, key, 0, valueBytes-1)
		ttls[i] = redis.NewIntCmd(ctx, "pttl", key) // as an integer: a Duration would overflow
		_ = pipe.Process(ctx, ttls[i])              // only queues the command
	}
	_, _ = pipe.Exec(ctx) // every command has its own error, and some errors are expected
	if err := serverTime.Err(); err != nil {
		return nil, instant{}, err
	}
	at := s.recordTime(uint64(serverTime.Val().UnixNano()))
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
