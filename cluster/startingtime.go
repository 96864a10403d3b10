package cluster

import (
	"context"
	"sync"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

// timeKeeper determines the log time at which a new leadership starts.
type timeKeeper struct {
	clock   *logClock
	state   *sync.Mutex // guards the applied state, see fsm
	view    *observer
	setting *heartbeatSetting
	peers   *peerClient
	life    *lifetime
}

// startingTime returns the minimum log time at which a new leadership starts. If the Clock of this node is already
// ahead of that time, the Clock is used. The result is 0 in two cases: this process is live, so its Clock is
// sufficient; or the log time is unknown.
//
// A restarted node has only the log time of the last entry. A node that was up in the meantime can estimate the current
// log time. If a majority of the voters answers, but none of them was up in the meantime, the earliest time according
// to their wall clocks is used.
func (k *timeKeeper) startingTime() uint64 {
	own := k.answer()
	switch {
	case own.Live:
		return 0
	case failpoint.Is(failpoint.TimeUnseen):
		return own.ByWall
	}
	ctx, cancel := context.WithTimeout(k.life.ctx, k.setting.heartbeat())
	defer cancel()
	return own.logTimeWith(k.askAll(ctx, own.Term), len(voters(k.view.View()))/2+1)
}

// timeAnswer contains a node's estimates of the log time.
type timeAnswer struct {
	Live   bool   `json:"live"`    // the process has applied an entry that was decided while it was running
	Term   uint64 `json:"term"`    // term in which the newest applied entry with changes was decided; 0 if there is none
	Now    uint64 `json:"now"`     // current log time, estimated from that entry; valid if Live
	ByWall uint64 `json:"by_wall"` // current log time, estimated with the wall clock
}

// logTimeWith returns the log time according to this node and the other nodes that have answered. If other nodes are
// live, the result is the latest of their estimates. Otherwise the result is the earliest estimate by a wall clock,
// if a majority has answered, counting this node. Without a majority, the log time is unknown and the result is 0. A
// new cluster, in which no entry has changes yet, is an exception: it has no earlier log time, so no majority is
// needed.
func (own timeAnswer) logTimeWith(others []timeAnswer, majority int) (now uint64) {
	byWall := own.ByWall
	for _, a := range others {
		byWall = min(byWall, a.ByWall)
		if a.Live {
			now = max(now, a.Now)
		}
	}
	if now == 0 && (len(others)+1 >= majority || own.Term == 0) {
		return byWall
	}
	return now
}

// answer returns the estimates of this node. It blocks while an entry is being applied.
func (k *timeKeeper) answer() timeAnswer {
	k.state.Lock()
	defer k.state.Unlock()
	return k.clock.answer()
}

// askAll asks the other voters, and returns the answers that arrive before ctx is done. It uses only answers from nodes
// whose newest applied entry was decided in the given term. The estimate of a node with older entries may be too high:
// if log time has fallen behind since these entries, the estimate does not include this loss.
func (k *timeKeeper) askAll(ctx context.Context, term uint64) (answers []timeAnswer) {
	others := otherVoters(k.view.View())
	got := make(chan *timeAnswer, len(others))
	for _, m := range others {
		go func() { got <- k.ask(ctx, m, term) }()
	}
	for range others {
		if a := <-got; a != nil {
			answers = append(answers, *a)
		}
	}
	return answers
}

// ask asks a node repeatedly, until the newest entry that the node has applied was decided in the given term, or until
// ctx is done. It retries because the asked node may be the only node that can estimate the log time.
func (k *timeKeeper) ask(ctx context.Context, m topology.Member, term uint64) *timeAnswer {
	for {
		a, err := k.peers.ask(ctx, m, Question{About: topicTime})
		if err == nil && a.Time != nil && a.Time.Term == term {
			return a.Time
		}
		if k.life.sleep(ctx, retryEvery) != nil {
			return nil
		}
	}
}
