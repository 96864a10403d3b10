package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/topology"
)

// usersProposals proposes versions of the users. On the leader it appends them to the log. On a follower it sends them to
// the leader.
type usersProposals struct {
	proposer
	newest func() (v usersVersion, known bool) // returns the newest applied version
	active *activeUsers
	log    *slog.Logger
}

// usersAnswer is the result of a proposal, for the node that has sent the proposal to the leader.
type usersAnswer struct {
	Version uint64 `json:"version"`           // number of the new version, or of the newest one if the problem is a conflict
	Problem string `json:"problem,omitempty"` // key in usersProblems; "" if the users were changed, or for another error
}

// usersProblems names the errors that a follower returns in the same way as the leader.
var usersProblems = map[string]error{
	"changed":     topology.ErrUsersChanged,
	"unknown":     topology.ErrUsersUnknown,
	"unchanged":   topology.ErrUnchanged,
	"unsupported": topology.ErrNoUsers,
}

// usersAnswerOf returns the answer to a proposal.
func usersAnswerOf(version uint64, err error) *usersAnswer {
	for name, problem := range usersProblems {
		if errors.Is(err, problem) {
			return &usersAnswer{version, name}
		}
	}
	return &usersAnswer{Version: version}
}

// leaderError is an error of the leader that wraps one of usersProblems.
type leaderError struct {
	answerError
	problem error
}

func (e leaderError) Unwrap() error { return e.problem }

// ProposeUsers replaces the given version of the users, see Node.ProposeUsers.
func (p *usersProposals) ProposeUsers(ctx context.Context, base uint64, text string) (version uint64, err error) {
	if p.leaderships.leads() {
		return p.answer(ctx, base, text)
	}
	if err := checkUsers(text); err != nil {
		return 0, err
	}
	a, err := p.askLeader(ctx, Question{About: topicProposeUsers, Users: base, body: []byte(text), Size: len(text)})
	switch {
	case a.Error == topology.ErrNoLeader.Error():
		return 0, topology.ErrNoLeader
	case a.Error != "" && a.Users != nil && usersProblems[a.Users.Problem] != nil:
		return a.Users.Version, leaderError{answerError(a.Error), usersProblems[a.Users.Problem]}
	case strings.HasSuffix(a.Error, errQuestion.Error()): // an earlier program is the leader
		return 0, leaderError{answerError(a.Error), topology.ErrNoUsers}
	case err != nil:
		return 0, err
	case a.Users == nil:
		return 0, errQuestion
	}
	return a.Users.Version, nil
}

// checkUsers returns an error if a text is too large.
func checkUsers(text string) error {
	if len(text) > acl.MaxText {
		return acl.ErrTooLong
	}
	return nil
}

func changedUsers(base, newest uint64) error {
	return fmt.Errorf("version %d of the users is not the newest version, %d: %w", base, newest, topology.ErrUsersChanged)
}

// answer appends a version to the log, and blocks until all members that can be reached use it. It returns
// topology.ErrNoLeader if this node is not the leader.
func (p *usersProposals) answer(ctx context.Context, base uint64, text string) (version uint64, err error) {
	if err := checkUsers(text); err != nil {
		return 0, err
	}
	if version, err = p.append(ctx, base, text); err != nil {
		return version, err
	}
	p.awaitActive(ctx, version)
	return version, nil
}

// append appends a version to the log, and blocks until this node has applied it.
func (p *usersProposals) append(ctx context.Context, base uint64, text string) (version uint64, err error) {
	if err := p.lock(ctx); err != nil {
		return 0, err
	}
	defer p.proposing.Unlock()
	l := p.leaderships.current() // read before the version: when a leadership begins, all earlier versions are applied
	if l == nil {
		return 0, topology.ErrNoLeader
	}
	if newest, _ := p.newest(); newest.Number != base {
		return newest.Number, changedUsers(base, newest.Number)
	}
	if base == 0 {
		if err := p.askMembers(ctx, Question{About: topicUsers}); err != nil {
			return 0, fmt.Errorf("set the first users: %w: %w", topology.ErrNoUsers, err)
		}
	}
	f, err := p.submit(ctx, l, usersEntryOf(base, text))
	if err != nil {
		return 0, p.appendError(err, f != nil)
	}
	if newest, ok := f.Response().(uint64); !ok || newest != f.Index() { // the entry was void
		return newest, changedUsers(base, newest)
	}
	return f.Index(), nil
}

// awaitActive blocks until all members use a version, or answerWithin has passed. A member that cannot be reached uses the
// version when it has applied the log.
func (p *usersProposals) awaitActive(ctx context.Context, version uint64) {
	err := p.active.await(ctx, version)
	if err == nil {
		err = p.askMembers(ctx, Question{About: topicUsers, Users: version})
	}
	if err != nil {
		p.log.Warn("the users were changed, and a node does not use the change yet", "version", version, "error", err)
	}
}
