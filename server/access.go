package server

import (
	"crypto/subtle"
	"errors"
	"net"
	"time"

	"github.com/throttledhq/throttled/options"
)

// ErrPassword is returned by Server.Authenticate for a wrong or missing password.
var ErrPassword = errors.New("wrong password")

// TooManyFailuresError is returned by Server.Authenticate for an address with too many recent failures.
type TooManyFailuresError struct {
	Wait time.Duration // time until the next attempt is permitted
}

func (e *TooManyFailuresError) Error() string {
	return "too many wrong passwords from this address; retry in " + e.Wait.Round(time.Second).String()
}

// RetryAfter returns the time until the next attempt is permitted.
func (e *TooManyFailuresError) RetryAfter() time.Duration { return e.Wait }

// Accepts reports whether a client with the given address may connect: in protected mode without a password, only
// clients on this host may. It is for clients of other protocols, such as HTTP.
func (s *Server) Accepts(addr net.Addr) bool { return !isProtected(s.opts.Get(), addr) }

func isProtected(o *options.Options, addr net.Addr) bool {
	return o.ProtectedMode && o.RequirePass == "" && !isLocal(addr)
}

// Authenticate returns nil if the password of a client is right, or if no password is required. Otherwise it returns
// ErrPassword or a *TooManyFailuresError. Failures have the same limit by address as those of AUTH.
func (s *Server) Authenticate(addr net.Addr, password []byte) error {
	o := s.opts.Get()
	if o.RequirePass == "" {
		return nil
	}
	right, wait := s.auth.attempt(failureLimitOf(addr, &redisListener, o), uint64(s.uptime()), func() bool {
		return sameDigest([]byte(o.RequirePass), password) == 1
	})
	switch {
	case right:
		return nil
	case wait > 0:
		s.warn("auth-limit", "request refused: too many wrong passwords from this address", "addr", addr)
		return &TooManyFailuresError{wait}
	}
	s.warn("auth", "wrong password", "addr", addr)
	return ErrPassword
}

// rightPassword returns 1 if user and password are those of the default user, and otherwise 0. It takes the same time
// whether the user or the password is wrong.
func rightPassword(o *options.Options, user, password []byte) int {
	same := sameDigest([]byte(o.RequirePass), password) | subtle.ConstantTimeByteEq(boolByte(o.RequirePass == ""), 1)
	return same & sameDigest([]byte(defaultUser), user)
}

// Reasons why Ready returns an error.
var (
	errReadyLoading  = errors.New("the snapshot is being loaded")
	errReadyLog      = errors.New("the log is being read")
	errReadyNoLeader = errors.New("the cluster has no leader")
	errReadyBehind   = errors.New("the node has not applied its log yet")
	errReadyStopping = errors.New("the server is shutting down")
)

// Ready returns nil if the server can decide requests, itself or through the leader. Otherwise the error is the reason.
func (s *Server) Ready() error {
	switch {
	case s.closing.Load():
		return errReadyStopping
	case s.snapshots.Loading():
		return errReadyLoading
	case s.cluster != nil && s.cluster.View().Leader == "":
		return errReadyNoLeader
	case s.cluster == nil && !s.decides():
		return errReadyLog
	case s.cluster != nil && !s.caughtUp.reached(s.cluster.Status):
		return errReadyBehind
	}
	return nil
}

// decides reports whether the engine makes decisions. An engine with a log makes none until it has read the log.
func (s *Server) decides() bool {
	holder, ok := s.engine.(interface {
		Hold() bool
		Release()
	})
	if !ok {
		return true
	}
	if !holder.Hold() {
		return false
	}
	holder.Release()
	return true
}

// RequiresPassword reports whether clients must authenticate.
func (s *Server) RequiresPassword() bool { return s.opts.Get().RequirePass != "" }
