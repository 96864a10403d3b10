package grpcedge

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/throttledhq/throttled/rules"
)

// domainRules is the part of a domain that relates the descriptors of one request to each other.
type domainRules struct {
	compiled *rules.CompiledDomain
	special  map[string]*specialLimit // limits with the key "envoy", by name
	replaces bool                     // a limit of the domain replaces others
}

// specialLimit is a limit with the key "envoy".
type specialLimit struct {
	limit    *rules.Limit
	metadata *structpb.Struct // nil if it has none
}

// plainLimit stands for the limits without the key "envoy", which relate to no others.
var plainLimit = specialLimit{limit: &rules.Limit{}}

// find returns the limit with a name.
func (d *domainRules) find(name string) *specialLimit {
	if l := d.special[name]; l != nil {
		return l
	}
	return &plainLimit
}

// ruleCache holds the domainRules of the active set.
type ruleCache struct {
	active atomic.Pointer[cachedRules]
	mu     sync.Mutex // held while a set is converted
}

type cachedRules struct {
	set     *rules.Set
	domains map[string]*domainRules
}

// domain returns the rules of a domain, or nil if the set has no such domain.
func (c *ruleCache) domain(set *rules.Set, name string) *domainRules {
	cached := c.active.Load()
	if cached == nil || cached.set != set {
		cached = c.replace(set)
	}
	return cached.domains[name]
}

func (c *ruleCache) replace(set *rules.Set) *cachedRules {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached := c.active.Load(); cached != nil && cached.set == set {
		return cached
	}
	cached := &cachedRules{set, map[string]*domainRules{}}
	for i := range set.File().Domains {
		d := &set.File().Domains[i]
		cached.domains[d.Name] = newDomainRules(d, set.Domain([]byte(d.Name)))
	}
	c.active.Store(cached)
	return cached
}

func newDomainRules(d *rules.Domain, compiled *rules.CompiledDomain) *domainRules {
	r := &domainRules{compiled: compiled, special: map[string]*specialLimit{}}
	for i := range d.Limits {
		l := &d.Limits[i]
		e := &l.Envoy
		r.replaces = r.replaces || len(e.Replaces) > 0
		if e.Name != "" || len(e.Replaces) > 0 || e.QuotaMode || e.Metadata != "" {
			r.special[l.Name] = &specialLimit{l, parseMetadata(e.Metadata)}
		}
	}
	return r
}

// parseMetadata returns the metadata of a limit, a JSON object that rules.Parse has checked.
func parseMetadata(text string) *structpb.Struct {
	if text == "" {
		return nil
	}
	s := &structpb.Struct{}
	if protojson.Unmarshal([]byte(text), s) != nil {
		return nil
	}
	return s
}
