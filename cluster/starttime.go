package cluster

import (
	"context"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

// startingTime returns the log time to begin with at the earliest, 0 if the node's own clock
// says all there is to know: it has followed the log until now. One that has just been started knows
// only from when the last entry is. Any node that was there meanwhile knows better. If none of
// most nodes was, they all were down, and wall clocks are all there is: the earliest of what they say holds.
func (n *Node) startingTime() uint64 {
	own := n.knownTime()
	switch {
	case own.Live:
		return 0
	case failpoint.Is(failpoint.TimeUnseen):
		return own.ByWall
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.heartbeat())
	defer cancel()
	return own.with(n.askTimes(ctx, own.Term), len(n.voters())/2+1)
}

// timeAnswer is what a node knows of the log time.
type timeAnswer struct {
	Live   bool   `json:"live"`    // it has followed the log
	Term   uint64 `json:"term"`    // in which the newest entry that it has was decided; 0 if it has none
	Now    uint64 `json:"now"`     // what the log time is by that entry
	ByWall uint64 `json:"by_wall"` // what it is by the wall clock
}

// with returns the log time by what this node and others know, 0 if these are not most of the
// nodes. Where nothing has been decided yet, any time will do.
func (own timeAnswer) with(others []timeAnswer, most int) (now uint64) {
	byWall := own.ByWall
	for _, a := range others {
		byWall = min(byWall, a.ByWall)
		if a.Live {
			now = max(now, a.Now)
		}
	}
	if now == 0 && (len(others)+1 >= most || own.Term == 0) {
		return byWall
	}
	return now
}

// knownTime returns what this node knows of the log time, once no entry is being applied.
func (n *Node) knownTime() timeAnswer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clock.answer()
}

// askTimes asks the other voters, and returns what is answered before ctx ends by those that have
// the newest entry, which was decided in a term. One that has older ones only does not know how
// much time was lost between those and the newest.
func (n *Node) askTimes(ctx context.Context, term uint64) (answers []timeAnswer) {
	others := n.others()
	got := make(chan *timeAnswer, len(others))
	for _, m := range others {
		go func() { got <- n.askTime(ctx, m, term) }()
	}
	for range others {
		if a := <-got; a != nil {
			answers = append(answers, *a)
		}
	}
	return answers
}

// askTime asks a node until it answers and has applied an entry of a term, or ctx ends. A node that is
// there may be slow to be found, and nobody can stand in for what it knows.
func (n *Node) askTime(ctx context.Context, m topology.Member, term uint64) *timeAnswer {
	for {
		a, err := n.config.Peers.Ask(ctx, m, Question{About: aboutTime})
		if err == nil && a.Time != nil && a.Time.Term == term {
			return a.Time
		}
		if n.wait(ctx, retryEvery) != nil {
			return nil
		}
	}
}
