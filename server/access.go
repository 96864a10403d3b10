package server

import (
	"errors"
	"net"
	"time"

	"github.com/throttledhq/throttled/acl"
)

// ErrPassword is returned by Server.Authenticate for a wrong or missing password, an unknown user, and a disabled user.
var ErrPassword = errors.New("wrong password")

// Login is a user as which a client of another protocol has authenticated; see Caller.As.
type Login = acl.Login

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
func (s *Server) Accepts(addr net.Addr) bool {
	return isLocal(addr) || !s.opts.Get().ProtectedMode || !s.currentUsers().Open()
}

// Authenticate returns the login of a user if the password is right. Otherwise it returns ErrPassword or a
// *TooManyFailuresError. Failures have the same limit by address as those of AUTH. Without the name of a user, the
// password is a token, see acl.Set.SplitToken. If RequiresPassword is false, the user
// "default" has any password.
func (s *Server) Authenticate(addr net.Addr, user, password []byte) (Login, error) {
	if len(user) == 0 {
		user, password = s.currentUsers().SplitToken(password)
	}
	u, wait := s.authenticate(addr, &redisListener, user, password)
	switch {
	case u != nil:
		return acl.NewLogin(u), nil
	case wait > 0:
		s.warn("auth-limit", "request refused: too many wrong passwords from this address", "addr", addr)
		return Login{}, &TooManyFailuresError{wait}
	}
	s.warn("auth", "wrong password", "addr", addr)
	return Login{}, ErrPassword
}

// MayRun reports whether the user of a login exists and may run a command, such as "info" or "cl.rules|get".
func (s *Server) MayRun(login Login, command string) bool {
	u := login.Of(s.currentUsers())
	id, known := s.users.catalog.ID(command)
	return u != nil && known && u.MayRun(id)
}

// MayCheck reports whether the user of a login exists and may run CL.CHECK in a domain, by the users of this server. A denial is
// recorded as that of a command.
func (s *Server) MayCheck(login Login, domain string) bool {
	c := s.NewCaller()
	defer c.Close()
	c.As(login)
	const name = "cl.check"
	return c.client.session.authenticated && c.client.permit(c.client.commands.named(name), [][]byte{[]byte(name), []byte(domain)}) == nil
}

// authenticate returns a user if the password is right. If the address has failed too often, the password is not checked,
// and wait is the time until the next attempt is permitted.
func (s *Server) authenticate(addr net.Addr, l *listenerProfile, user, password []byte) (u *acl.User, wait time.Duration) {
	set := s.currentUsers()
	_, wait = s.auth.attempt(failureLimitOf(addr, l, s.opts.Get(), set), uint64(s.uptime()), func() bool {
		u = set.Authenticate(user, password)
		return u != nil
	})
	return u, wait
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
	case s.isSidecar(): // without an upstream, it decides by upstream-away
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

// Users returns the current users. After each change of the users or of requirepass, it returns another pointer.
func (s *Server) Users() *acl.Set { return s.currentUsers() }

// RequiresPassword reports whether clients must authenticate: the user "default" has a password or is disabled.
func (s *Server) RequiresPassword() bool { return !s.currentUsers().Open() }

// warnIfOpened logs a warning if the server accepts all clients, and has not done so before. The reason can be the start, an
// option, ACL LOAD of a file without the user "default", or a change of the users on another node. It reports whether the
// server accepts all clients.
func (s *Server) warnIfOpened(before bool) (open bool) {
	open = !s.RequiresPassword() && !s.opts.Get().ProtectedMode
	if open && !before {
		s.log.Warn("the server accepts all clients, from any address and without a password: set requirepass or enable protected-mode")
	}
	return open
}

// CertificateUser returns the login of a client of another protocol whose verified certificate has this common name, which
// may be empty. ok is false unless it is the name of an enabled user, and the option tls-auth-clients-user is "CN".
func (s *Server) CertificateUser(commonName string) (login Login, ok bool) {
	u := s.userOfCertificate(s.currentUsers(), commonName)
	if u == nil {
		return Login{}, false
	}
	return acl.NewLogin(u), true
}

// userOfCertificate returns the user of clients whose verified certificate has this common name, or nil.
func (s *Server) userOfCertificate(set *acl.Set, commonName string) *acl.User {
	if commonName == "" || s.opts.Get().TLSAuthClientsUser != "CN" {
		return nil
	}
	if u := set.Get(commonName); u != nil && u.Enabled() {
		return u
	}
	return nil
}
