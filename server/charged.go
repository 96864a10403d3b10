package server

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/forward"
)

// era is a period without rollbacks: a term of this node's engine, or a term of the cluster if
// another node has decided. The zero era means that the client has not been charged.
//
// In async mode, decisions that were already acknowledged may be rolled back when leadership is lost,
// so WAIT must not confirm charges of an era that is over.
type era struct {
	term uint64
	here bool // term is that of this node's engine
}

// noteBatch records the era of the client's last charge. It checks for charges only if the era differs.
func (c *client) noteBatch(b *batch, t limiter.Ticket) {
	if now := (era{t.Term, true}); now != c.charged && b.charges() {
		c.charged = now
	}
}

// charges reports whether any call of a decided batch charges anything.
func (b *batch) charges() bool {
	reqs, out := b.reqs[:b.n], b.out[:b.n]
	for i := range b.calls {
		n := b.calls[i].n
		if charges(reqs[:n], out[:n]) {
			return true
		}
		reqs, out = reqs[n:], out[n:]
	}
	return false
}

// charges reports whether a call with these requests and decisions charges anything.
func charges(reqs []limiter.Request, out []limiter.Decision) bool {
	for i := range out {
		if out[i].Err != nil || out[i].Limited {
			return false
		}
	}
	return asksForAny(reqs)
}

// asksForAny reports whether any request has a quantity other than 0.
func asksForAny(reqs []limiter.Request) bool {
	for i := range reqs {
		if reqs[i].Quantity != 0 {
			return true
		}
	}
	return false
}

// noteForwarded records the era of the client's last charge by the leader. term is the term known when the call was
// sent. The leader may have decided in a later one; WAIT then fails to confirm the charge, which is safe.
func (c *client) noteForwarded(call *forward.Call, term uint64) {
	if now := (era{term: term}); call.Charged && now != c.charged {
		c.charged = now
	}
}

// holds reports whether the era of the client's last charge is not over, so that no charge was rolled
// back. In sync mode it is always true, since acknowledged charges are committed.
func (c *client) holds() bool {
	switch {
	case c.charged == era{} || !c.srv.isAsync():
		return true
	case !c.leads():
		return c.charged == era{term: c.srv.cluster.View().Term}
	}
	return c.charged == era{c.srv.engine.Mark().Term, true}
}

// relayWait relays the leader's reply to WAIT, or replies with 0 if the era of the client's last charge
// is over.
func (c *client) relayWait(e *call) {
	if e.reply[0] == ':' && !c.holds() {
		c.out.Int(0)
		return
	}
	c.relay(e)
}
