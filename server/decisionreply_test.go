package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// reply renders the reply.
func (o *decisionOracle) reply(live, shadows []*counterModel, uncharged bool) string {
	var top *counterModel
	flags := flagUnmatched
	if uncharged {
		flags = flagUncharged
	}
	for _, c := range live {
		if top == nil || c.shown.Outranks(&top.shown) {
			top, flags = c, 0
		}
	}
	name, decision := "''", unlimited
	if top != nil {
		decision = top.shown
		if top.limit != nil {
			name = top.limit.name
		}
	}
	for _, c := range live {
		if decision.Limited {
			c.flags &^= flagSoft
		}
		flags |= c.flags &^ flagUnlimited
	}
	for _, c := range shadows {
		if c.shown.Limited {
			c.flags &^= flagSoft
			flags |= flagShadow
		}
	}
	var b strings.Builder
	for i, c := range slices.Concat(live, shadows) {
		if i > 0 {
			b.WriteByte(' ')
		}
		limit := "''"
		if c.limit != nil {
			limit = c.limit.name
		}
		fmt.Fprintf(&b, "[%s %s %s %s", limit, c.window, fiveOf(&c.shown), flagsOf(c.flags))
		if c.limit != nil && c.limit.algorithm == "leaky" && c.amount.count >= 0 {
			fmt.Fprintf(&b, " %d", limiter.Ceil(c.shown.Wait, time.Millisecond))
		}
		b.WriteByte(']')
	}
	return fmt.Sprintf("[%s %s %s [%s] %d]", fiveOf(&decision), name, flagsOf(flags), b.String(), o.version)
}

// show converts a decision to the nominal limit, without the soft share, and sets the flags of the state.
func (c *counterModel) show() {
	d := &c.shown
	if !c.asked {
		return
	}
	l := c.limit
	if l == nil {
		l = &limitModel{}
	}
	nominal, used := c.most-c.soft, c.most-d.Remaining
	if used > nominal && l.soft > 0 {
		c.flags |= flagSoft
	}
	if l.warn > 0 && used > 0 && used*100 >= nominal*l.warn {
		c.flags |= flagWarn
	}
	d.Limit, d.Remaining = nominal, max(d.Remaining-c.soft, 0)
}

// fiveOf renders the five integers of a decision, in milliseconds.
func fiveOf(d *limiter.Decision) string {
	return fmt.Sprintf("%d %d %d %d %d", countTrue(d.Limited), d.Limit, d.Remaining, limiter.Ceil(d.RetryAfter, time.Millisecond), limiter.Ceil(d.ResetAfter, time.Millisecond))
}

// flagsOf renders flags.
func flagsOf(flags ruleFlags) string {
	var names []string
	for i, name := range ruleFlagNames {
		if flags&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return "[" + strings.Join(names, " ") + "]"
}
