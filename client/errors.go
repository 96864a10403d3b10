package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Errors of Allow and AllowN, and reasons of flagged decisions.
var (
	// ErrClosed means that the Client is closed.
	ErrClosed = errors.New("the client is closed")
	// ErrQuantity means that the quantity of a request is below 1.
	ErrQuantity = errors.New("the quantity must be at least 1")
	// ErrWrongKind means that the key is in use by another kind of limit. Use another key.
	ErrWrongKind = errors.New("the key is in use by another kind of limit")
	// ErrServer wraps other error replies of the server, such as that of a user without the permission for a command.
	ErrServer = errors.New("the server has refused the command")
	// ErrReply means that the reply is not one of a throttled server.
	ErrReply = errors.New("unexpected reply: the address must be that of a throttled server")

	// ErrAway is the reason of a flagged decision if the server is known not to answer, or if the connection was lost. In the
	// latter case, the server may have charged the request.
	ErrAway = errors.New("the server does not answer")
	// ErrTimeout is the reason of a flagged decision if the server has not answered within Options.Timeout. It may have
	// charged the request.
	ErrTimeout = errors.New("the server has not answered in time")
	// ErrBusy is the reason of a flagged decision if too many requests wait for the server.
	ErrBusy = errors.New("too many requests wait for the server")
)

// replyClass is the meaning of an error reply.
type replyClass struct {
	err       error // the sentinel that wraps the reply
	undecided bool  // Options.Away decides the request
	away      bool  // the server does not decide any request at present
}

// replyClasses has the meanings of error replies by their first word. Other replies mean ErrServer.
var replyClasses = map[string]replyClass{
	"LOADING":     {err: ErrAway, undecided: true, away: true},
	"CLUSTERDOWN": {err: ErrAway, undecided: true, away: true},
	"UNCERTAIN":   {err: ErrTimeout, undecided: true},
	"BUSY":        {err: ErrBusy, undecided: true},
	"WRONGTYPE":   {err: ErrWrongKind},
}

// classify returns the meaning of an error of go-redis, which is not nil. An error that is not a reply means that there is no
// connection to the server.
func classify(err error) replyClass {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return replyClass{err: fmt.Errorf("%w: %w", ErrAway, err), undecided: true, away: true}
	}
	word, _, _ := strings.Cut(reply.Error(), " ")
	class, found := replyClasses[word]
	if !found {
		class.err = ErrServer
	}
	class.err = fmt.Errorf("%w: %w", class.err, err)
	return class
}
