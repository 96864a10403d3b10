package server

import (
	"sync"
	"sync/atomic"

	"github.com/throttledhq/throttled/acl"
)

// session is the client state that commands set: authentication, name, reply mode, transaction and subscriptions. It
// neither reads nor writes the connection.
//
// It belongs to the goroutine that runs the client's commands. Any goroutine may call lastCommand and currentInfo.
type session struct {
	authenticated        bool
	user                 *acl.User // as which commands run if authenticated is set
	users                *acl.Set  // the users when user was last read from them
	failedLogins         int       // wrong passwords since the last login
	replies              replyMode
	marksCharges         bool // forward.ChargedMark precedes each reply to a limiter command that has charged something
	showsPolicy          bool // the flag of upstream-away precedes each reply to a limiter command that this option has decided
	tracking             tracking
	tx                   transaction
	subscriptions        subscriptions
	subscriptionsChanged bool    // the subscriptions have changed since they were last registered for delivery
	subscriptionsRevised bool    // the users have changed since the subscriptions were changed
	monitoring           bool    // MONITOR is on
	backup               *backup // snapshot that the client reads; nil if there is none
	secure               bool    // the connection uses TLS; does not change
	// certificate is the common name of the verified client certificate, or "". It does not change. If the option
	// tls-auth-clients-user is CN, it is the name of the user of a new connection.
	certificate string

	lastRun atomic.Pointer[command]

	mu   sync.Mutex // guards info
	info clientInfo
}

// clientInfo is the client state that other goroutines can read, for example for CLIENT LIST.
type clientInfo struct {
	login                      acl.Login
	name, libName, libVer      string
	resp                       int
	multi                      int // queued commands; -1 outside a transaction
	channels, patterns         int
	monitor, tracking, noEvict bool
	saving                     bool // SAVE, or the save of SHUTDOWN, is in progress
}

func (s *session) init() { s.info = clientInfo{resp: 2, multi: -1} }

// reset restores the initial state, except for the authentication, the fields failedLogins, marksCharges and
// showsPolicy, and the name and version of the client library.
func (s *session) reset() {
	s.discard()
	s.subscriptions = subscriptions{}
	s.tracking = tracking{}
	if s.replies == replyOff {
		s.replies = replyOn
	}
	s.monitoring, s.subscriptionsChanged, s.subscriptionsRevised = false, false, false
	s.setInfo(func(i *clientInfo) {
		*i = clientInfo{login: i.login, libName: i.libName, libVer: i.libVer, resp: 2, multi: -1}
	})
}

// follow applies a change of the users. If the user of the session is deleted, the session is not authenticated any more,
// even if a user with the same name was created since.
func (s *session) follow(set *acl.Set) {
	s.users = set
	s.subscriptionsRevised = s.subscriptionsRevised || s.subscriptionsChanged
	if u := acl.NewLogin(s.user).Of(set); u != nil {
		s.user = u
	} else {
		s.authenticated = false
	}
	if !s.authenticated && set.Open() && s.user == set.Default() {
		s.authenticated = true
	}
}

// become sets the user of the session.
func (s *session) become(u *acl.User) {
	s.user = u
	s.setInfo(func(i *clientInfo) { i.login = acl.NewLogin(u) })
}

// discard drops the transaction and the watched keys.
func (s *session) discard() {
	s.tx.close()
	s.tx = transaction{}
	s.setInfo(func(i *clientInfo) { i.multi = -1 })
}

// takeTransaction removes the transaction from the session and returns it. The caller must close the transaction.
func (s *session) takeTransaction() *transaction {
	tx := s.tx
	s.tx.ownStream = nil
	s.discard()
	return &tx
}

// setInfo changes the state that other goroutines can read.
func (s *session) setInfo(change func(i *clientInfo)) {
	s.mu.Lock()
	change(&s.info)
	s.mu.Unlock()
}

// currentInfo returns the state that other goroutines can read.
func (s *session) currentInfo() clientInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// setLastRun records the last command, which CLIENT LIST shows.
func (s *session) setLastRun(cmd *command) {
	if s.lastRun.Load() != cmd {
		s.lastRun.Store(cmd)
	}
}

// lastCommand returns the name of the last command.
func (s *session) lastCommand() string {
	if cmd := s.lastRun.Load(); cmd != nil {
		return cmd.name
	}
	return "NULL"
}

// settingsBytes estimates the memory of subscriptions, prefixes and names.
func (s *session) settingsBytes() int64 {
	n := 0
	for _, list := range [...][]string{s.subscriptions.channels, s.subscriptions.patterns, s.tracking.prefixes} {
		for _, text := range list {
			n += len(text) + perArgument
		}
	}
	n *= 2 // spare capacity of lists, size classes of the allocator, and garbage
	i := s.currentInfo()
	return int64(n + len(i.name) + len(i.libName) + len(i.libVer))
}

// kind returns the type of the client, as named by Redis.
func (i *clientInfo) kind(l *listenerProfile) string {
	switch {
	case i.monitor || l.trusted:
		return kindReplica
	case i.channels+i.patterns > 0:
		return kindPubsub
	}
	return kindNormal
}
