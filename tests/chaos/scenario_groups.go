package main

import (
	"context"
	"fmt"
	"time"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/tests/chaos/check"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// slowUpstream is an argument of the sidecars. With a long timeout, a slow machine does not make requests unknown.
var slowUpstream = []string{"--upstream-timeout", "500"}

// sidecarsRules is sidecars with requests that charge several limits: CL.CHECK by rules, and CL.ALL.
func sidecarsRules(ctx context.Context, l *lab) error {
	return l.sidecarsWith(ctx, fleetPlan{count: fleetSize, args: slowUpstream}, newGroups)
}

// groupsFor is the duration of the load of groupsWithBug.
const groupsFor = 3 * time.Second

// groupsWithBug runs the load of sidecarsRules with two sidecars and without faults, but with a deliberate bug.
func (l *lab) groupsWithBug(ctx context.Context, bug failpoint.Bug) error {
	return l.withFleet(ctx, fleetPlan{count: 2, args: slowUpstream, env: mutant(bug)}, func(ctx context.Context, f *fleet) error {
		w, err := newGroups(ctx, f)
		if err != nil {
			return err
		}
		load := f.load(ctx, l.rate, w)
		sleep(ctx, groupsFor) // the duration of the load
		f.judge(ctx, load)
		return ctx.Err()
	})
}

// settled checks the limits and the sidecars after the load.
func (g *groups) settled(ctx context.Context, f *fleet, ops []history.Op) (findings []finding) {
	add := func(checker string, err error) {
		if err != nil {
			findings = append(findings, finding{checker, err.Error()})
		}
	}
	var peeks []peek
	for i := range g.pairs {
		peeks = append(peeks, g.pairs[i].peek())
	}
	for i := range g.rules.paths {
		one := g.rules.check(i, i%len(g.rules.users), "")
		peeks = append(peeks, peek{one.peek(), one.full})
	}
	add("restored", f.restored(ctx, peeks))
	add("spent", f.spent(ctx))
	for _, account := range []string{leasedAccount, queuedAccount} {
		a, err := g.account(f, account, ops)
		f.lab.out.note("units of the account "+account, "%s", a)
		add("healing", err)
		add("ledger", judgeAccount(account, a))
	}
	add("pressure", g.pressure(&f.sums))
	return findings
}

// pressure returns an error if it is possible that no group was decided with leased units. Groups are not refused by sidecars.
func (g *groups) pressure(s *leaseSums) error {
	if singles := g.singles.Load(); int64(s.admitted) <= singles {
		return fmt.Errorf("the sidecars have admitted %d limits, and %d requests of one limit were sent; want more admissions", s.admitted, singles)
	}
	return nil
}

// full returns an error unless a reply shows that all units of all limits are available.
func (g *group) full(r *reply) error {
	shown, err := g.read(r)
	if err != nil {
		return err
	}
	for i, l := range g.limits {
		if shown[i].remaining != l.limit {
			return fmt.Errorf("%s: %d units remain, want %d", l.of.Name, shown[i].remaining, l.limit)
		}
	}
	return nil
}

// account compares the units in use of the limit total with the requests of an account.
func (g *groups) account(f *fleet, account string, ops []history.Op) (a check.Account, err error) {
	total := g.rules.totals[account]
	r, err := askOnce(f.nodes[0].addr(), patience, "CL.CHECK", "fleet", "PEEK", "account", account)
	if err != nil {
		return a, err
	}
	shown, err := (&group{[]string{"CL.CHECK"}, []grouped{total}}).read(&r)
	if err != nil {
		return a, err
	}
	return check.Ledger(total.of, history.ByKey(ops)[total.of], shown[0].remaining), nil
}

// judgeAccount checks that each admitted request of an account has charged a unit, and that no refused request has. The units in
// use of the leased account include those of leases that ended, or were lost with killed sidecars, so there may be more of them.
func judgeAccount(account string, a check.Account) error {
	if a.Lost() > 0 || account == queuedAccount && a.Extra() > 0 {
		return fmt.Errorf("account %s: %s", account, a)
	}
	return nil
}

// spent checks the counters of the present processes of the sidecars. No request may be sent meanwhile.
func (f *fleet) spent(ctx context.Context) error {
	for _, s := range f.sidecars {
		err := await(ctx, healWithin, func() (bool, error) { // leases end
			info, err := s.section(patience, "sidecar")
			return err == nil && number(info, "lessee_units") == 0, err
		})
		if err != nil {
			return fmt.Errorf("%s still has units in hand: %w", s.id, err)
		}
		info, err := s.section(patience, "sidecar")
		if err == nil {
			err = spentOnce(info)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	return nil
}

// spentOnce returns an error unless each unit that a sidecar has drawn was spent by the admission of one limit, returned or lost.
// The sidecar has no units in hand, and all requests charged one unit of each limit.
func spentOnce(info map[string]string) error {
	drawn, admitted := number(info, "lessee_drawn_units"), number(info, "lessee_admitted")
	returned, lost := number(info, "lessee_returned_units"), number(info, "lessee_lost_units")
	if drawn != admitted+returned+lost {
		return fmt.Errorf("%d units were drawn, but %d limits admitted, %d units returned and %d lost", drawn, admitted, returned, lost)
	}
	return nil
}
