package server

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/forward"
)

// era is a time in which nothing is taken back: a term of this node's engine, or of the cluster
// where another node has decided. The zero era is that of a client which has not been charged.
//
// In async mode a leader that stops leading may take back what it has answered, so that WAIT must
// not confirm what a client was charged in an era that is over.
type era struct {
	term uint64
	here bool // the term is that of this node's engine
}

// noteBatch remembers when the client was charged last. Whether it is matters in a new term only.
func (c *client) noteBatch(b *batch, t limiter.Ticket) {
	if now := (era{t.Term, true}); now != c.charged && b.charges() {
		c.charged = now
	}
}

// charges reports whether a batch that has been decided charges anything.
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

// charges reports whether a call whose decisions are made changes anything.
func charges(reqs []limiter.Request, out []limiter.Decision) bool {
	for i := range out {
		if out[i].Err != nil || out[i].Limited {
			return false
		}
	}
	return asksForAny(reqs)
}

// asksForAny reports whether requests do more than to peek.
func asksForAny(reqs []limiter.Request) bool {
	for i := range reqs {
		if reqs[i].Quantity != 0 {
			return true
		}
	}
	return false
}

// noteForwarded remembers when the client was charged last, by the reply of the leader of a term. The term is the one
// that was known when the call was sent: the leader may have decided in a later one, which is the strict side.
func (c *client) noteForwarded(call *forward.Call, term uint64) {
	if now := (era{term: term}); call.Charged && now != c.charged {
		c.charged = now
	}
}

// holds reports whether all that the client was charged last is still there, or committed. In
// sync mode what was answered is.
func (c *client) holds() bool {
	switch {
	case c.charged == era{} || !c.srv.isAsync():
		return true
	case c.elsewhere():
		return c.charged == era{term: c.srv.cluster.View().Term}
	}
	return c.charged == era{c.srv.engine.Mark().Term, true}
}

// relayWait passes on what the leader has answered to WAIT, unless that may be about another era than
// the client means.
func (c *client) relayWait(e *call) {
	if e.reply[0] == ':' && !c.holds() {
		c.out.Int(0)
		return
	}
	c.relay(e)
}
