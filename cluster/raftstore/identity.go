package raftstore

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/topology"
)

// Identity identifies the node that owns a directory.
type Identity struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Incarnation is 32 hexadecimal digits, drawn at random when the directory is first
	// claimed. A node that has lost its directory, or set it aside, gets a new
	// incarnation: its votes are lost, so it must not be mistaken for the node that cast
	// them.
	Incarnation string    `json:"incarnation"`
	Created     time.Time `json:"created"`

	// Boot is the number of starts of the node with this directory. See RecordStart.
	Boot uint64 `json:"boot,omitempty"`
	// Lineage lists the processes of the newest starts.
	Lineage Lineage `json:"line,omitzero"`
	// Stale is the reason why the node must not be started with this directory again, or empty.
	Stale string `json:"stale,omitempty"`
	// Recovery identifies the last recovery of the node's cluster. It is empty if the cluster
	// was never recovered. Recovered is the state of the node from which the function Recover derived this
	// identifier.
	Recovery  topology.Recovery `json:"recovery,omitempty"`
	Recovered recovered         `json:"recovered,omitzero"`
}

// recovered is the state of a node before its last recovery. If Recover is called again before the
// next start of the node, the new recovery is derived from the same state.
type recovered struct {
	From topology.Recovery `json:"from,omitempty"` // the previous recovery
	Boot uint64            `json:"boot"`           // Identity.Boot at the time of the recovery
}

// identityFile is an Identity with checksums. Sum covers only the fields that every version of the program
// writes.
type identityFile struct {
	Identity
	Sum        string `json:"sum"`
	StateSum   string `json:"state_sum,omitempty"` // does not cover Lineage
	LineageSum string `json:"line_sum,omitempty"`
}

const (
	identityName = "identity.json"
	maxIdentity  = 16 << 10 // bytes
	maxName      = 255      // bytes of a cluster or node name
	maxStale     = 500      // bytes of Identity.Stale
)

// sum returns the checksum of the fields that never change. The fields are quoted to delimit them.
func (i *Identity) sum() string {
	text := fmt.Sprintf("%q %q %q %d", i.Cluster, i.Node, i.Incarnation, i.Created.UnixNano())
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli))
}

// stateSum returns the checksum of the fields that change, or an empty string if all of them are zero.
func (i *Identity) stateSum() string {
	if i.Boot == 0 && i.Stale == "" && i.Recovery == "" && i.Recovered == (recovered{}) {
		return ""
	}
	text := fmt.Sprintf("%d %q %q %q %d", i.Boot, i.Stale, i.Recovery, i.Recovered.From, i.Recovered.Boot)
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli))
}

func encodeIdentity(i Identity) ([]byte, error) {
	data, err := json.MarshalIndent(identityFile{i, i.sum(), i.stateSum(), i.Lineage.sum()}, "", "  ")
	return append(data, '\n'), err
}

// decodeIdentity parses an identity. The error wraps ErrDamaged if data is invalid.
func decodeIdentity(data []byte) (Identity, error) {
	var f identityFile
	if len(data) > maxIdentity {
		return Identity{}, fmt.Errorf("%s is %w: it has %d bytes, at most %d are valid", identityName, ErrDamaged, len(data), maxIdentity)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return Identity{}, fmt.Errorf("%s is %w: %w", identityName, ErrDamaged, err)
	}
	if raw, err := hex.DecodeString(f.Incarnation); err != nil || len(raw) != 16 || !validName(f.Cluster) || !validName(f.Node) {
		return Identity{}, fmt.Errorf("%s is %w: a field is missing or invalid", identityName, ErrDamaged)
	}
	if f.Sum != f.sum() || f.StateSum != f.stateSum() || f.LineageSum != f.Lineage.sum() || !f.Recovery.Valid() || !f.Recovered.From.Valid() {
		return Identity{}, fmt.Errorf("%s is %w: checksum does not match", identityName, ErrDamaged)
	}
	return f.Identity, nil
}

// readIdentity reads the identity in dir, or returns nil if there is none.
func readIdentity(dir string) (*Identity, error) {
	data, err := os.ReadFile(filepath.Join(dir, identityName)) // #nosec G304 -- a file of data-dir
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	i, err := decodeIdentity(data)
	return &i, err
}

// writeIdentity writes the identity to a new file, syncs it and renames it into place.
func writeIdentity(dir string, i Identity) error {
	data, err := encodeIdentity(i)
	if err != nil {
		return fmt.Errorf("encode the identity: %w", err)
	}
	path := filepath.Join(dir, identityName)
	if err := writeSynced(path+".tmp", data); err != nil {
		return fmt.Errorf("write the identity: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write the identity: %w", err)
	}
	return fsutil.Sync(dir)
}

// Identity returns the identity of the directory. ok is false if the directory has not been claimed.
func (s *Store) Identity() (i Identity, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity == nil {
		return Identity{}, false
	}
	return *s.identity, true
}

// Claim assigns the directory to a node, or verifies that it belongs to the node. The
// names of the cluster and the node have 1 to 255 bytes of UTF-8 each. Claim must be
// called before raft is started. fresh is true if this call has claimed the directory for
// the first time, with a new incarnation. The error wraps [ErrOtherCluster] or
// [ErrOtherNode] if the directory belongs to a different node, [ErrStale] if it was marked
// as an old copy, and [ErrDamaged] if it contains a log but no identity.
func (s *Store) Claim(cluster, node string) (i Identity, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !validName(cluster) || !validName(node):
		return i, false, fmt.Errorf("claim %s: the names of the cluster and the node must be 1 to %d bytes of UTF-8", s.dir, maxName)
	case s.identity == nil:
		i, err = s.claimNew(cluster, node)
		return i, err == nil, err
	case s.identity.Cluster != cluster:
		return *s.identity, false, fmt.Errorf("claim %s of cluster %q for cluster %q: %w", s.dir, s.identity.Cluster, cluster, ErrOtherCluster)
	case s.identity.Node != node:
		return *s.identity, false, fmt.Errorf("claim %s of node %q for node %q: %w", s.dir, s.identity.Node, node, ErrOtherNode)
	case s.identity.Stale != "":
		return *s.identity, false, fmt.Errorf("claim %s: %w: %s", s.dir, ErrStale, s.identity.Stale)
	}
	return *s.identity, false, nil
}

// RecordStart durably increments the boot number for a start of the node, and returns the
// updated identity. process identifies the start: 1 to 32 letters and digits, drawn at
// random. RecordStart must be called between Claim and the start of raft. Starts with the same
// directory, or with copies of it, are distinguished by their boot numbers and by Lineage.
func (s *Store) RecordStart(process string) (Identity, error) {
	return s.change("record a start", func(i *Identity) {
		i.Boot++
		i.Lineage = i.Lineage.WithStart(i.Boot, process)
	})
}

// NoteAnnounced durably records that the cluster has applied the announcement of the newest start: the log
// entry by which the node publishes its boot number. NoteAnnounced removes earlier starts from Lineage.
func (s *Store) NoteAnnounced() error {
	_, err := s.change("record the announcement", func(i *Identity) { i.Lineage = i.Lineage.Announced(i.Boot) })
	return err
}

// SetRecovery durably stores r as Identity.Recovery.
func (s *Store) SetRecovery(r topology.Recovery) error {
	_, err := s.change("record the recovery", func(i *Identity) { i.Recovery = r })
	return err
}

// MarkStale durably records the reason why the directory must not be used again. Claim then fails with
// [ErrStale]. The reason is truncated to 500 bytes. Invalid UTF-8 is removed from the reason, since JSON
// would replace it and the checksum would not match.
func (s *Store) MarkStale(why string) error {
	why = strings.ToValidUTF8(why[:min(len(why), maxStale)], "")
	_, err := s.change("record that the directory is outdated", func(i *Identity) { i.Stale = why })
	return err
}

// change calls f to modify the identity, and stores the result durably. It fails if the directory has
// not been claimed.
func (s *Store) change(action string, f func(*Identity)) (Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity == nil {
		return Identity{}, fmt.Errorf("%s in %s: the directory has not been claimed", action, s.dir)
	}
	next := *s.identity
	f(&next)
	if err := writeIdentity(s.current(), next); err != nil {
		return *s.identity, fmt.Errorf("%s in %s: %w", action, s.dir, err)
	}
	s.identity = &next
	return next, nil
}

func validName(name string) bool { return name != "" && len(name) <= maxName && utf8.ValidString(name) }

func (s *Store) claimNew(cluster, node string) (Identity, error) {
	used, err := raft.HasExistingState(s.Logs(), s.Stable(), s.Snapshots())
	if err == nil && used {
		err = fmt.Errorf("the directory contains a log, but %s is missing: %w", identityName, ErrDamaged)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("claim %s: %w", s.dir, err)
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	i := Identity{Cluster: cluster, Node: node, Incarnation: hex.EncodeToString(random[:]), Created: time.Now().UTC().Round(0)}
	if err := writeIdentity(s.current(), i); err != nil {
		return Identity{}, fmt.Errorf("claim %s: %w", s.dir, err)
	}
	s.identity = &i
	return i, nil
}
