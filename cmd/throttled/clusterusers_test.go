package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/topology"
)

// usersCatalog is a catalog of a few commands.
var usersCatalog = acl.NewCatalog([]string{"limits"}, []acl.Command{{Name: "cl.throttle", Categories: 1}, {Name: "ping"}})

// names returns the names of the users that can log in.
func names(s *acl.Set) string {
	var list []string
	for _, u := range s.Users() {
		if u.Enabled() {
			list = append(list, u.Name())
		}
	}
	return strings.Join(list, " ")
}

// TestClusterUsers_Apply applies versions of the users, and checks which logins succeed.
func TestClusterUsers_Apply(t *testing.T) {
	initial, err := acl.Parse("user default off\nuser file on nopass", usersCatalog)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	u := &clusterUsers{store: acl.NewStore(initial), catalog: usersCatalog, initial: initial, log: slog.New(slog.NewTextHandler(&logged, nil))}
	for _, tt := range []struct {
		version    uint64
		text, want string
		log        string
	}{
		{7, "user ann on nopass +cl.throttle", "ann default", ""},
		{9, "user ann on nopass +cl.unknown\nuser default off\nuser bob on nopass", "bob", "user ann"},
		{0, "", "file", ""},
	} {
		logged.Reset()
		if err := u.Apply(tt.version, tt.text, nil); err != nil {
			t.Error(err)
		}
		if got := u.store.Get(); names(got) != tt.want || got.Version != tt.version {
			t.Errorf("version %d: users %q of version %d, want %q", tt.version, names(got), got.Version, tt.want)
		}
		if !strings.Contains(logged.String(), tt.log) || tt.log == "" && logged.Len() > 0 {
			t.Errorf("version %d: the log has %q, want %q", tt.version, logged.String(), tt.log)
		}
	}
	login := acl.NewLogin(initial.Get("file"))
	if err := u.Apply(10, "user file on nopass", map[string]uint64{"file": 10}); err != nil || login.Of(u.store.Get()) != nil {
		t.Errorf("a user was created again: error %v, the earlier login has the user %v", err, login.Of(u.store.Get()))
	}
	if err := u.Apply(0, "", nil); err != nil {
		t.Error(err)
	}
	if err := u.Apply(11, strings.Repeat("x", acl.MaxText+1), nil); !errors.Is(err, acl.ErrTooLong) || names(u.store.Get()) != "file" {
		t.Errorf("a text that is too long: error %v, users %q", err, names(u.store.Get()))
	}
}

// seedLog implements usersLog. Each call returns the next error.
type seedLog struct {
	errs  []error
	texts []string
}

func (l *seedLog) ProposeUsers(_ context.Context, base uint64, text string) (uint64, error) {
	l.texts = append(l.texts, fmt.Sprint(base, " ", text))
	err := l.errs[0]
	l.errs = l.errs[1:]
	return 5, err
}

// TestUsersSeed checks that the users are proposed until the log has users.
func TestUsersSeed(t *testing.T) {
	for _, tt := range []struct {
		errs []error
		want string // part of the log
	}{
		{[]error{nil}, "the cluster has the users in the ACL file"},
		{[]error{topology.ErrNoLeader, nil}, "the cluster has the users in the ACL file"},
		{[]error{fmt.Errorf("version 0: %w", topology.ErrUsersChanged)}, "the ACL file is not used"},
	} {
		var logged bytes.Buffer
		l := &seedLog{errs: tt.errs}
		notReady := 1
		s := usersSeed{path: "users.acl", text: "user ann on", target: l, log: slog.New(slog.NewTextHandler(&logged, nil)), ready: func() error {
			notReady--
			if notReady == 0 {
				return errors.New("not ready")
			}
			return nil
		}}
		s.run(t.Context())
		if len(l.errs) != 0 || l.texts[0] != "0 user ann on" || !strings.Contains(logged.String(), tt.want) || strings.Count(logged.String(), "\n") != 1 {
			t.Errorf("errors %v: proposals %q, log %q; want one line with %q", tt.errs, l.texts, logged.String(), tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := usersSeed{ready: func() error { return errors.New("never ready") }, log: slog.New(slog.DiscardHandler)}
	s.run(ctx) // returns
}
