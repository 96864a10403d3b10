package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
	"github.com/throttledhq/throttled/topology"
)

// clusterUsers makes the users in the log of a cluster the users of the server. It implements cluster.Users.
type clusterUsers struct {
	store   *acl.Store
	catalog *acl.Catalog
	initial *acl.Set // the users while the log has none: those in the option aclfile, or only the default user
	log     *slog.Logger
}

// newClusterUsers returns the users of a cluster. The users in the store are used while the log has none.
func newClusterUsers(store *acl.Store, log *slog.Logger) *clusterUsers {
	return &clusterUsers{store: store, catalog: server.UserCatalog(), initial: store.Get(), log: log}
}

// Apply replaces the users. A user with rules that this version of the program does not support is disabled on this node.
func (u *clusterUsers) Apply(version uint64, text string, created map[string]uint64) error {
	if version == 0 {
		u.store.Replace(u.initial)
		return nil
	}
	set, errs := acl.ParseStored(text, u.catalog)
	if set == nil {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		u.log.Error("a user of the cluster is disabled on this node: run the same version on all nodes, or change the user", "version", version, "error", err)
	}
	set.Version = version
	set.SetCreated(created)
	u.store.Replace(set)
	return nil
}

// usersLog is the log of the users of a cluster. *cluster.Node implements it.
type usersLog interface {
	ProposeUsers(ctx context.Context, base uint64, text string) (version uint64, err error)
}

// usersSeed makes the users in the option aclfile the first version of the users of a cluster.
type usersSeed struct {
	path   string
	text   string
	target usersLog
	ready  func() error // returns an error while this node cannot make proposals
	log    *slog.Logger
}

// seedUsers makes the program propose the users in the option aclfile, if it is set, as the first ones of the cluster.
func (p *program) seedUsers(o *options.Options, users *acl.Set) {
	if o.ACLFile == "" {
		return
	}
	p.usersSeed = &usersSeed{
		path: o.ACLFile, text: users.Text(), target: p.replica.node, log: p.log,
		ready: func() error { return p.server.Ready() }, // the server is created later
	}
}

// run proposes the users until the log has users, or ctx is done.
func (s *usersSeed) run(ctx context.Context) {
	for attempt := 1; !s.try(ctx, attempt); attempt++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(retryFirst<<min(attempt, 10), retryAtMost)):
		}
	}
}

// try makes an attempt, and reports whether the log has users.
func (s *usersSeed) try(ctx context.Context, attempt int) bool {
	version, err := s.propose(ctx)
	switch {
	case errors.Is(err, topology.ErrUsersChanged):
		s.log.Info("the ACL file is not used, because the cluster has users: change them with ACL SETUSER and ACL DELUSER", "file", s.path, "version", version)
	case err != nil:
		level := slog.LevelDebug
		if attempt == warnAfter {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "the users in the ACL file are not in the log of the cluster yet, and the server tries again", "file", s.path, "error", err)
		return false
	default:
		s.log.Info("the cluster has the users in the ACL file", "file", s.path, "version", version)
	}
	return true
}

// propose proposes the users if this node is ready.
func (s *usersSeed) propose(ctx context.Context) (version uint64, err error) {
	if err := s.ready(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, proposeWithin)
	defer cancel()
	return s.target.ProposeUsers(ctx, 0, s.text)
}
