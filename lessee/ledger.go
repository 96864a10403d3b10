package lessee

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// Config holds the parameters of a Ledger. The zero value of a field selects the default.
type Config struct {
	Lessee  string // name of the lessee, 1 to 64 bytes; it must differ from the names of other lessees
	Relaxed bool   // draw leases that are charged as of the draw: more units, and a weaker bound
	// Hold is the wanted validity of a lease, and the longest time for which a refusal is repeated: 20 ms to 1 s.
	// The default is 1 s. The authority may grant less.
	Hold time.Duration
	// MinUnits is the number of units that must be in demand during Hold before a key is leased. The default is 20. A draw and
	// a return cost the authority about as much as two requests.
	MinUnits int64
	// MaxKeys is the maximum number of keys that are tracked. The default is 100,000.
	MaxKeys int
}

const (
	defaultHold     = time.Second
	defaultMinUnits = 20
	defaultMaxKeys  = 100_000
)

// shardCount is the number of shards of a ledger, a power of two.
const shardCount = 64

// Ledger holds the leases of one lessee.
type Ledger struct {
	config Config
	seed   maphash.Seed
	shards [shardCount]shard
	plan   plan
	counts Counts
}

// shard holds the accounts whose hash selects it.
type shard struct {
	mu       sync.Mutex
	accounts map[string]*account
	recent   recent
	_        [64]byte // keeps the locks of two shards in different cache lines
}

// New returns an empty Ledger.
func New(c Config) *Ledger {
	c.Hold = cmp.Or(c.Hold, defaultHold)
	c.MinUnits = cmp.Or(c.MinUnits, defaultMinUnits)
	c.MaxKeys = cmp.Or(c.MaxKeys, defaultMaxKeys)
	l := &Ledger{config: c, seed: maphash.MakeSeed()}
	l.plan.init()
	for i := range l.shards {
		l.shards[i].accounts = map[string]*account{}
	}
	return l
}

// Decide decides a request of a single limit at the time now, and stores the decision in out. It returns false if the
// authority must decide the request; out is then unchanged. It does not allocate, unless it begins to track a key.
func (l *Ledger) Decide(req *limiter.Request, now int64, out *limiter.Decision) bool {
	if !leasable(req) {
		l.counts.Forwarded.Add(1)
		return false
	}
	var buf [maxName]byte
	name := appendName(buf[:0], req)
	s, hash := l.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := l.account(s, name, hash, req, now)
	if a != nil {
		a.demands(req.Quantity, now)
	}
	if a == nil || !a.decide(req.Quantity, now, out) {
		l.counts.Forwarded.Add(1)
		return false
	}
	l.counts.count(out.Limited)
	return true
}

// DecideGroup decides the requests of a group at the time now, and stores the decisions in out. It returns false, and charges
// nothing, unless it holds enough units of every limit and the keys differ. It never refuses: the authority decides a group
// that is refused.
func (l *Ledger) DecideGroup(reqs []limiter.Request, now int64, out []limiter.Decision) bool {
	var g group
	defer g.unlock()
	if !g.find(l, reqs, now) || !g.enough(reqs, now) {
		l.counts.Forwarded.Add(int64(len(reqs)))
		return false
	}
	for i := range reqs {
		quantity := reqs[i].Quantity
		if i > 0 && failpoint.Is(failpoint.LesseeGroup) {
			quantity = 0
		}
		g.accounts[i].admit(quantity, now, &out[i])
		l.counts.count(false)
	}
	return true
}

// maxKey is the length of the longest keys that are tracked: an account has two copies of its key, and no other limit bounds their
// memory.
const maxKey = 1 << 10

// leasable reports whether a request can be decided with leased units: it charges, its key is not too long, and it concerns the limit
// of a kind that an authority leases.
func leasable(req *limiter.Request) bool {
	return req.Quantity > 0 && !req.Trial && req.Draw == nil && req.Kind.Raw() != "" && len(req.Key) <= maxKey
}

// maxName is the length of names for which Decide needs no memory of the heap.
const maxName = 160

// appendName appends the name of the account of a request: its kind, limit and key.
func appendName(dst []byte, req *limiter.Request) []byte {
	dst = append(dst, byte(req.Kind))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(req.Limit.Max))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(req.Limit.Interval))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(req.Limit.Amount))
	return append(dst, req.Key...)
}

func (l *Ledger) shard(name []byte) (*shard, uint64) {
	hash := maphash.Bytes(l.seed, name)
	return &l.shards[hash%shardCount], hash
}

// account returns the account of a request, with the lock of the shard held. It returns nil for a key that is not tracked: one that
// is not in demand, or is beyond MaxKeys.
func (l *Ledger) account(s *shard, name []byte, hash uint64, req *limiter.Request, now int64) *account {
	a := s.accounts[string(name)]
	if a == nil {
		if !s.recent.frequent(hash/shardCount, now) || len(s.accounts) >= max(1, l.config.MaxKeys/shardCount) {
			return nil
		}
		a = newAccount(l, string(name), req, now)
		s.accounts[a.name] = a
		l.plan.schedule(a, now+int64(l.config.Hold))
	}
	return a
}
