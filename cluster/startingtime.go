package cluster

import (
	"context"
	"sync"

	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/topology"
)

// timeKeeper finds the log time at which a new leader starts.
type timeKeeper struct {
	clock   *logClock
	state   *sync.Mutex // lock of the applied state, see fsm
	view    *observer
	setting *heartbeatSetting
	peers   *peerClient
	life    *lifetime
}

// startingTime returns the earliest log time at which a leadership may start, or 0 if the own clock of the node is
// sufficient, because it has followed the log until now. A node that was restarted knows only the log time of the last
// entry, and any node that was up meanwhile knows more. If none of a majority was up, the earliest time by their wall
// clocks is used.
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
	return own.with(k.askAll(ctx, own.Term), len(voters(k.view.View()))/2+1)
}

// timeAnswer is the log time as far as a node knows it.
type timeAnswer struct {
	Live   bool   `json:"live"`    // the node has followed the log
	Term   uint64 `json:"term"`    // term in which its newest entry was decided; 0 if it has none
	Now    uint64 `json:"now"`     // log time by that entry
	ByWall uint64 `json:"by_wall"` // log time by its wall clock
}

// with returns the log time by the answers of this node and others. It returns 0 if no node has followed the log, fewer
// than a majority have answered, and something has been decided before.
func (own timeAnswer) with(others []timeAnswer, majority int) (now uint64) {
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

// answer returns the log time as far as this node knows it, when no entry is being applied.
func (k *timeKeeper) answer() timeAnswer {
	k.state.Lock()
	defer k.state.Unlock()
	return k.clock.answer()
}

// askAll asks the other voters, and returns the answers that arrive before ctx is done, from nodes whose newest entry was
// decided in a term. Nodes with older entries do not know the time that was lost before the newest one.
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

// ask asks a node until it answers and has applied an entry of a term, or until ctx is done. It retries, since no other
// node may have the answer.
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
