package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/topology"
)

// UserLog changes the users of a cluster. A *cluster.Node implements it.
type UserLog interface {
	// ProposeUsers replaces the version base of the users by a text in the format of acl.Parse. The nodes apply the new
	// version to their acl.Store. The error wraps topology.ErrUsersChanged if base is not the newest version.
	ProposeUsers(ctx context.Context, base uint64, text string) (version uint64, err error)
}

// userCatalog holds the result of UserCatalog. A variable that is initialized by a function would depend on itself, since
// commands use the catalog.
var userCatalog struct {
	once    sync.Once
	catalog *acl.Catalog
}

// UserCatalog returns the commands and categories that the rules of users can name.
func UserCatalog() *acl.Catalog {
	userCatalog.once.Do(func() { userCatalog.catalog = newUserCatalog() })
	return userCatalog.catalog
}

// refundName is the command that rules name to permit refunds. There is no such command: it stands for limiter commands
// with a negative quantity or cost, so that the permission to charge limits does not include the permission to restore them.
const refundName = "cl.refund"

// newUserCatalog derives the catalog from the command table. The index of a command is its id. The last command is
// refundName.
func newUserCatalog() *acl.Catalog {
	table := commandTable()
	commands := make([]acl.Command, len(commandNames(table)), len(commandNames(table))+1)
	for _, on := range []profileSet{onRedis, onCluster, onSentinel, onPeers} {
		for _, cmd := range newRegistry(table, on).every {
			x := &commands[cmd.id]
			x.Name, x.Always, x.Categories = cmd.name, x.Always || cmd.is(noAuth), x.Categories|uint64(cmd.categories())
		}
	}
	names := make([]string, len(categoryNames))
	for i, name := range categoryNames {
		names[i] = strings.TrimPrefix(name, "@")
	}
	return acl.NewCatalog(names, append(commands, acl.Command{Name: refundName, Categories: uint64(catAdmin | catDangerous)}))
}

// users holds the users of a server.
type users struct {
	*acl.Store
	catalog *acl.Catalog
	log     UserLog // nil if standalone
	refund  int     // id of refundName in the catalog
	monitor int     // id of MONITOR in the catalog
	denials aclLog

	passwordFrom atomic.Pointer[options.Options] // options whose password the user "default" has
	following    sync.Mutex                      // serializes changes of passwordFrom
}

func (u *users) init(c *Config, names int) {
	u.Store, u.log, u.catalog, u.refund = c.Users, c.UserLog, UserCatalog(), names
	u.monitor, _ = u.catalog.ID("monitor")
	if u.Store == nil {
		u.Store = acl.NewStore(acl.NewSet(u.catalog))
	}
}

// currentUsers returns the current users, after it has applied a change of the password in the options.
func (s *Server) currentUsers() *acl.Set {
	u := &s.users
	if s.opts.Get() != u.passwordFrom.Load() {
		u.following.Lock()
		defer u.following.Unlock()
		o := s.opts.Get()
		u.FollowPassword(o.Password())
		u.passwordFrom.Store(o)
	}
	return u.Get()
}

// errPasswordOfUser is the reason why the password in the options cannot change.
var errPasswordOfUser = errors.New("the password of the user default was set by ACL SETUSER or in aclfile: change it there")

// CheckOptions returns an error if the server cannot apply changed options. The program must call it before a change.
func (s *Server) CheckOptions(old, changed *options.Options) error {
	if old.Password() != changed.Password() && s.users.Get().DefaultIsExplicit() {
		return &options.SetError{Name: "requirepass", Reason: errPasswordOfUser.Error()}
	}
	return nil
}

// watchUsers closes the connections of users that are deleted, and those with subscriptions or with a MONITOR that are no
// longer permitted, until the server shuts down.
func (s *Server) watchUsers() {
	for {
		changed := s.users.Changed()
		s.closeRevoked(s.users.Get())
		select {
		case <-s.shutdownBegun:
			return
		case <-changed:
		}
	}
}

// closeRevoked closes the connections that the users in set no longer permit. The commands that were read are answered
// before, so that a user that deletes itself gets the reply.
func (s *Server) closeRevoked(set *acl.Set) {
	for _, c := range s.connections() {
		info := c.session.currentInfo()
		if u := info.login.Of(set); u == nil || info.monitor && !u.MayRun(s.users.monitor) {
			c.conn.closeAfterReplies()
		}
	}
	for o, subscriber := range s.broker.sharedCopy() {
		if u := o.session.currentInfo().login.Of(set); u == nil || !maySubscribe(u, subscriber.channels, subscriber.patterns) {
			o.closing.hangUp()
		}
	}
}

// maySubscribe reports whether a user may be subscribed to channels and patterns.
func maySubscribe(u *acl.User, channels, patterns []string) bool {
	for _, name := range channels {
		if !u.MayUseChannel([]byte(name)) {
			return false
		}
	}
	for _, name := range patterns {
		if !u.MayUsePattern([]byte(name)) {
			return false
		}
	}
	return true
}

// Limits of a change of the users.
const (
	usersTimeout  = 10 * time.Second
	usersAttempts = 16 // concurrent changes that one change tolerates
)

// changeUsers replaces the users by the result of change, which is called again if another change was first. In a
// cluster, the change is committed when changeUsers returns nil.
func (s *Server) changeUsers(change func(*acl.Set) (*acl.Set, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), usersTimeout)
	defer cancel()
	err := topology.ErrUsersChanged
	for range usersAttempts {
		changed := s.users.Changed()
		set := s.currentUsers()
		next, changeErr := change(set)
		if changeErr != nil || next == set {
			return changeErr
		}
		text := next.Text()
		if len(text) > acl.MaxText {
			return errUsersTooLong
		}
		if s.users.log == nil {
			if s.users.CompareAndReplace(set, next) {
				return nil
			}
			continue
		}
		if err = s.proposeUsers(ctx, set.Version, text); !errors.Is(err, topology.ErrUsersChanged) {
			return err
		}
		select { // the other change is committed: wait until this node has applied it
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// proposeUsers proposes a text to the log of the cluster. While the cluster has no leader, it retries for as long as
// other commands wait for a leader.
func (s *Server) proposeUsers(ctx context.Context, base uint64, text string) error {
	for deadline := time.Now().Add(s.leaderWait()); ; {
		_, err := s.users.log.ProposeUsers(ctx, base, text)
		left := time.Until(deadline)
		if !errors.Is(err, topology.ErrNoLeader) || left <= 0 {
			return err
		}
		select {
		case <-s.cluster.View().Changed:
		case <-time.After(min(left, retryPause)):
		}
	}
}

// infoUsers writes the number of users, and their version: in a cluster the index of the log entry that has set it, and
// otherwise the number of changes.
func infoUsers(s *Server, w *infoWriter) {
	set := s.currentUsers()
	w.field("users", set.Len())
	w.field("users_version", set.Version)
}
