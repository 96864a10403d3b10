package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// groupsRules are the rules of the scenario sidecars-rules. A request with a path and a user matches two live limits and the
// shadow limit trial. The live limits are closed without a leader, so that each admission is charged. The limit total restores
// nothing during a run. The limit queue is never leased.
const groupsRules = `version: 1
domain: fleet
limits:
  gcra: {when: {path: gcra}, allow: 1500/s burst 4500, on_failure: closed}
  fixed: {when: {path: fixed}, allow: 2800 per 2s, algorithm: fixed, on_failure: closed}
  sliding: {when: {path: sliding}, allow: 3000 per 2s, algorithm: sliding, on_failure: closed}
  buckets: {when: {path: buckets}, allow: 1200 per 2s, algorithm: buckets 5, on_failure: closed}
  log: {when: {path: log}, allow: 450 per 2s, algorithm: log, on_failure: closed}
  bucket: {when: {path: bucket}, allow: 1400/s burst 2600, algorithm: bucket, on_failure: closed}
  small: {when: {user: small/*}, per: [user], allow: 75/s burst 300, on_failure: closed}
  large: {when: {user: large/*}, per: [user], allow: 1200/s burst 2000, on_failure: closed}
  queue: {when: {queue: {present: true}}, allow: 20/s, algorithm: leaky, on_failure: closed}
  total: {when: {account: {present: true}}, per: [account], allow: 1000000 per 36500 days, on_failure: closed}
  trial: {when: {path: {present: true}}, per: [path], allow: 500/s burst 1500, shadow: true}
`

// The accounts, which have counters of the limit total. The units of leasedAccount are leased. The requests of queuedAccount match
// the limit queue, too, so that their units are not leased.
const (
	leasedAccount = "leased"
	queuedAccount = "queued"
)

// grouped is a limit of a request that charges several limits.
type grouped struct {
	of     *history.Key
	name   string // of the limit in the rules
	value  string // of the attribute that selects the counter; empty if the limit has one counter
	limit  int64  // expected in the reply
	shadow bool
}

// rulesKeys holds the limits of groupsRules.
type rulesKeys struct {
	paths, trials []grouped // by path
	users         []grouped
	totals        map[string]grouped // by account
	queue         grouped
}

func newRulesKeys() *rulesKeys {
	r := &rulesKeys{totals: map[string]grouped{}}
	const long = 2 * time.Second
	r.paths = []grouped{
		ofRule("gcra", "", 4500, rateOf(4500, 1500)),
		ofRule("fixed", "", 2800, boundOf("FIXED", 2800, long)),
		ofRule("sliding", "", 3000, boundOf("SLIDING", 3000, long)),
		ofRule("buckets", "", 1200, boundOf("BUCKETS", 1200, long)),
		ofRule("log", "", 450, boundOf("LOG", 450, long)),
		ofRule("bucket", "", 2600, bucketBound(2600, 1400, time.Second)),
	}
	for _, p := range r.paths {
		trial := ofRule("trial", p.name, 1500, rateOf(1500, 500))
		trial.shadow = true
		r.trials = append(r.trials, trial)
	}
	r.users = []grouped{ofRule("small", "small/1", 300, rateOf(300, 75))}
	for _, user := range []string{"large/1", "large/2"} {
		r.users = append(r.users, ofRule("large", user, 2000, rateOf(2000, 1200)))
	}
	for _, account := range []string{leasedAccount, queuedAccount} {
		const units = 1_000_000
		r.totals[account] = ofRule("total", account, units, history.Key{MaxBurst: units - 1, Count: units, Period: 36500 * 24 * time.Hour})
	}
	r.queue = ofRule("queue", "", 20, history.Key{Form: history.Bound, MaxBurst: 19, Count: 20, Period: time.Second})
	return r
}

// rateOf returns a GCRA limit with a number of units per second.
func rateOf(burst, perSecond int64) history.Key {
	return history.Key{MaxBurst: burst - 1, Count: perSecond, Period: time.Second}
}

// pairs returns the limits of which CL.ALL charges two.
func pairs() (keys []windowKey) {
	for _, rate := range []int64{40, 840, 1240} {
		k := &history.Key{Name: "pair:" + itoa(rate), MaxBurst: 4*rate - 1, Count: rate, Period: time.Second}
		keys = append(keys, windowKey{k, k.Limit(), ofKey(k, 1).words[:5], nil})
	}
	for i, mode := range []string{"FIXED", "SLIDING", "BUCKETS", "LOG"} {
		keys = append(keys, windowOf(mode, "pair:"+mode, 1600-200*int64(i), 2))
	}
	return keys
}

// ofRule returns the counter of a limit of the rules for a value of its attribute per, or its only counter.
func ofRule(name, value string, limit int64, of history.Key) grouped {
	of.Name = strings.TrimSuffix("rule:"+name+":"+value, ":")
	return grouped{of: &of, name: name, value: value, limit: limit}
}

// group is a request that charges one unit of each of its limits, or of none.
type group struct {
	words  []string
	limits []grouped
}

// check returns a CL.CHECK of a path and a user, and of an account unless it is empty.
func (r *rulesKeys) check(path, user int, account string) *group {
	p, u := r.paths[path], r.users[user]
	g := &group{[]string{"CL.CHECK", "fleet", "path", p.name, "user", u.value}, []grouped{p, u}}
	if account != "" {
		g.words, g.limits = append(g.words, "account", account), append(g.limits, r.totals[account])
	}
	g.limits = append(g.limits, r.trials[path])
	return g
}

// queued returns a CL.CHECK that matches the limits queue and total.
func (r *rulesKeys) queued() *group {
	return &group{[]string{"CL.CHECK", "fleet", "queue", "x", "account", queuedAccount}, []grouped{r.queue, r.totals[queuedAccount]}}
}

// peek returns the command that reads the limits of a CL.CHECK.
func (g *group) peek() []string { return slices.Insert(slices.Clone(g.words), 2, "PEEK") }

// allOf returns a CL.ALL of several limits.
func allOf(keys ...*windowKey) *group {
	g := &group{words: []string{"CL.ALL", "1"}}
	for _, k := range keys {
		g.words = append(append(append(g.words, strings.TrimPrefix(k.words[0], "CL.")), k.words[1:]...), k.mode...)
		g.limits = append(g.limits, grouped{of: k.of, limit: k.limit})
	}
	return g
}

// oneOf returns a request of one limit.
func oneOf(k *windowKey) *group {
	return &group{k.request(1).words, []grouped{{of: k.of, limit: k.limit}}}
}

var errGroup = errors.New("invalid reply to a group")

// read returns the decisions of a reply on the limits of the group, in their order. A reply is invalid if it has other limits, or
// if it does not refuse the request although a live limit does, or the reverse.
func (g *group) read(r *reply) (shown []shownLimit, err error) {
	if shown, err = g.readLimits(r); err != nil {
		return nil, err
	}
	refused := false
	for i, l := range g.limits {
		if shown[i].limit != l.limit {
			return nil, fmt.Errorf("%w: %s has the limit %d, want %d", errGroup, l.of.Name, shown[i].limit, l.limit)
		}
		refused = refused || shown[i].limited && !l.shadow
	}
	if refused != (r.list[0].n == 1) {
		return nil, fmt.Errorf("%w: the first integer is %d, and a live limit refuses: %t", errGroup, r.list[0].n, refused)
	}
	return shown, nil
}

// readLimits returns the decisions of a reply on the limits of the group, in their order.
func (g *group) readLimits(r *reply) (shown []shownLimit, err error) {
	if g.words[0] == "CL.CHECK" {
		return g.readRules(r)
	}
	lists := []reply{*r}
	if g.words[0] == "CL.ALL" {
		if lists = r.list[min(5, len(r.list)):]; len(lists) != len(g.limits) {
			return nil, fmt.Errorf("%w: %+v", errGroup, *r)
		}
	}
	for i := range lists {
		n := lists[i].integers()
		if len(n) != 5 {
			return nil, fmt.Errorf("%w: %+v", errGroup, *r)
		}
		shown = append(shown, shownLimit{n[0] == 1, n[1], n[2], n[3], n[4]})
	}
	return shown, nil
}

// readRules is readLimits for CL.CHECK.
func (g *group) readRules(r *reply) (shown []shownLimit, err error) {
	c, err := readChecked(r)
	if err != nil {
		return nil, err
	}
	for _, l := range g.limits {
		s, found := c.limits[l.name]
		if !found || len(c.limits) != len(g.limits) {
			return nil, fmt.Errorf("%w: the limits are %+v", errGroup, c.limits)
		}
		shown = append(shown, s)
	}
	return shown, nil
}
