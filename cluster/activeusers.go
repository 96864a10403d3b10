package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// Users receives the versions of the users.
type Users interface {
	// Apply replaces the users of this node by those in the text. Number 0 means that the log has no users. After an error,
	// the node continues with the users that it has. A user that was deleted and created again has another creation number
	// than before. Users that are missing in created have 0.
	Apply(version uint64, text string, created map[string]uint64) error
}

// noUsers is the Users of a node whose users are not replicated.
type noUsers struct{}

func (noUsers) Apply(uint64, string, map[string]uint64) error { return nil }

// Keys of the stable store of Raft.
var (
	usersKey     = []byte("Users")        // number and text of the active version of the users
	creationsKey = []byte("UsersCreated") // number and field Created of the active version, or of the one that replaces it
)

var errInactive = errors.New("the node does not use this version of the users yet")

// activeUsers makes the newest version of the users the active one. It also stores the version on disk, because a
// restarted node cannot determine which entries of its log are committed until it receives a message from a leader.
// Without the stored version, deleted users could log in to a node that cannot reach the other nodes.
//
// The text is parsed outside of fsm.Apply. Versions that are replaced meanwhile are skipped.
type activeUsers struct {
	target Users
	stable raft.StableStore
	// newest returns the newest applied version. It returns false if that version is older than the stored one.
	newest  func() (v usersVersion, known bool)
	changed <-chan struct{}
	life    *lifetime
	log     *slog.Logger

	mu       sync.Mutex
	active   usersVersion
	advanced chan struct{} // closed when active has changed
}

// load makes the version active that the previous process has stored, if there is one, and returns its number.
func (u *activeUsers) load() (number uint64, err error) {
	b, err := u.stable.Get(usersKey)
	if err != nil || len(b) < 8 { // no version is stored, or Raft will fail with the same error
		return 0, nil
	}
	v := usersVersion{Number: binary.LittleEndian.Uint64(b), Size: len(b) - 8, text: string(b[8:])}
	if created, err := u.stable.Get(creationsKey); err == nil && bytes.HasPrefix(created, b[:8]) {
		v.Created = string(created[8:])
	}
	if err := u.target.Apply(v.Number, v.text, v.creations()); err != nil {
		return 0, fmt.Errorf("read version %d of the users: %w", v.Number, err)
	}
	u.set(v)
	return v.Number, nil
}

// run activates the newest version each time that it has changed, until the node is closed.
func (u *activeUsers) run() {
	for {
		select {
		case <-u.life.ended():
			return
		case <-u.changed:
			if v, known := u.newest(); known && v != u.current() {
				u.activate(v)
			}
		}
	}
}

// activate makes a version active, unless its text is not valid on this node.
func (u *activeUsers) activate(v usersVersion) {
	if err := u.target.Apply(v.Number, v.text, v.creations()); err != nil {
		u.log.Error("this node cannot read the changed users of the cluster and keeps the previous ones: run the same version on all nodes",
			"version", v.Number, "error", err)
		return
	}
	if err := u.store(v); err != nil {
		u.log.Error("cannot store the users; check the disk of the data directory", "error", err)
	}
	u.set(v)
}

// store stores a version. The creation numbers are stored first, and contain the number of the version, so that they are not
// used with another text.
func (u *activeUsers) store(v usersVersion) error {
	number := binary.LittleEndian.AppendUint64(nil, v.Number)
	if err := u.stable.Set(creationsKey, append(slices.Clip(number), v.Created...)); err != nil {
		return err
	}
	return u.stable.Set(usersKey, append(number, v.text...))
}

func (u *activeUsers) set(v usersVersion) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active = v
	close(u.advanced)
	u.advanced = make(chan struct{})
}

func (u *activeUsers) current() usersVersion {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.active
}

// await blocks until the given version or a later one is active, at most for answerWithin.
func (u *activeUsers) await(ctx context.Context, number uint64) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for {
		u.mu.Lock()
		active, advanced := u.active.Number, u.advanced
		u.mu.Unlock()
		if active >= number {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return fmt.Errorf("version %d: %w", number, errInactive)
		}
	}
}
