package server

import (
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/forward"
)

// era is a period in which no decision is rolled back. If this node decides, the era is an epoch of the engine of
// this node. If another node decides, the era is a term of the cluster. The zero era means that the client has not
// been charged.
//
// In async mode, acknowledged decisions may be rolled back when leadership is lost, so WAIT must not confirm a charge
// from an earlier era.
type era struct {
	number  uint64 // number of the epoch or of the term
	isEpoch bool   // this node decided, so the number is an epoch of its engine
}

// recordDecisions updates the era of the last charge after this node has decided a batch. If the last charge was in the
// same era, there is nothing to update, so the batch is not examined.
func (e *era) recordDecisions(b *batch, t limiter.CommitToken) {
	if now := (era{t.Epoch, true}); now != *e && b.charges() {
		*e = now
	}
}

// charges reports whether any call in a decided batch has charged anything.
func (b *batch) charges() bool {
	for i := range b.calls {
		if charges(b.requests(&b.calls[i])) {
			return true
		}
	}
	return false
}

// charges reports whether a call with these requests and decisions has charged anything: it has a group that was admitted,
// and that has a request with a quantity other than 0 that is not a trial.
func charges(reqs []limiter.Request, out []limiter.Decision) bool {
	admitted, asks := true, false // of the group so far
	for i := range out {
		admitted = admitted && out[i].Err == nil && !out[i].Limited
		asks = asks || reqs[i].Quantity != 0 && !reqs[i].Trial && reqs[i].Draw == nil
		if d := reqs[i].Draw; d != nil && d.Granted > 0 {
			return true // a draw that is granted may be refused one more unit
		}
		if reqs[i].Linked {
			continue
		}
		if admitted && asks {
			return true
		}
		admitted, asks = true, false
	}
	return false
}

// recordForwarded updates the era of the last charge after the leader has answered a call. term is the term in the view
// of this node when it sent the call. If the leader decided in a later term, WAIT does not confirm the charge after this
// node has received a view of that term, even if the charge is committed. This is safe.
func (e *era) recordForwarded(call *forward.Call, term uint64) {
	if now := (era{number: term}); call.Charged && now != *e {
		*e = now
	}
}

// holds reports whether the era of the last charge still lasts, so that no charge was rolled back. It also returns true
// if the client has not been charged, and in sync mode, in which acknowledged charges are committed. leads reports
// whether this node is the leader.
func (e era) holds(s *Server, leads bool) bool {
	switch {
	case e == era{} || !s.isAsync():
		return true
	case !leads:
		return e == era{number: s.cluster.View().Term}
	}
	return e == era{s.engine.LastWrite().Epoch, true}
}
