package cluster

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/acl"
)

// TestUsersEntries applies entries, and checks which of them change the users.
func TestUsersEntries(t *testing.T) {
	s := &usersState{changed: make(chan struct{}, 1)}
	for _, tt := range []struct {
		index, base uint64
		text        string
		want        uint64 // number of the newest version after the entry
	}{{3, 1, "no base", 0}, {5, 0, "first", 5}, {6, 0, "void", 5}, {9, 5, "second", 9}, {10, 5, "void", 9}, {11, 9, "", 11}} {
		if err := s.apply(&raft.Log{Index: tt.index, Data: usersEntryOf(tt.base, tt.text)}); err != nil || s.Number != tt.want {
			t.Errorf("entry %d, base %d: version %d, error %v; want version %d", tt.index, tt.base, s.Number, err, tt.want)
		}
		if changed := len(s.changed) == 1; changed != (tt.want == tt.index) || changed && (s.text != tt.text || s.Size != len(tt.text)) {
			t.Errorf("entry %d: changed %t, text %q", tt.index, changed, s.text)
		}
		for len(s.changed) > 0 {
			<-s.changed
		}
	}
}

// TestUserCreations checks the creation numbers of users after each of several entries, also if versions between are skipped.
func TestUserCreations(t *testing.T) {
	s := &usersState{changed: make(chan struct{}, 1)}
	for _, tt := range []struct {
		index uint64
		text  string
		want  map[string]uint64
	}{
		{5, "user default on\nuser app on\nuser bob off\n", nil}, // the users that the nodes had before
		{6, "user default on\nuser bob off\n", nil},
		{8, "user default on\nuser app on\nuser bob on\n", map[string]uint64{"app": 8}},
		{9, "user ann on\nuser app on\nuser bob off\n", map[string]uint64{"app": 8, "ann": 9}},
		{11, "user ann on\nuser app on +ping\nuser default on\n", map[string]uint64{"app": 8, "ann": 9}},
		{12, "user ann on\nuser app on +ping\nuser bob on\nuser default on\n", map[string]uint64{"app": 8, "ann": 9, "bob": 12}},
		{14, "", nil},
		{15, "\n  user  app\ton\n", map[string]uint64{"app": 15}},
	} {
		if err := s.apply(&raft.Log{Index: tt.index, Data: usersEntryOf(s.Number, tt.text)}); err != nil {
			t.Fatal(err)
		}
		if got := s.creations(); !maps.Equal(got, tt.want) {
			t.Errorf("entry %d: the creation numbers are %v, want %v", tt.index, got, tt.want)
		}
	}
	malformed := usersVersion{Created: "x 7 -1 8 9", text: "user a on\nuser b on\nuser c on\n"}
	if got, want := malformed.creations(), map[string]uint64{"b": 7}; !maps.Equal(got, want) {
		t.Errorf("malformed numbers: %v, want %v", got, want)
	}
	many := usersVersion{Number: 1}
	if n := len(many.createdAfter(1<<40, strings.Repeat("user a\n", acl.MaxText/8))); n != 0 {
		t.Errorf("the numbers of a text with too many users have %d bytes, want 0", n)
	}
}

// TestUsersEntriesAreBounded checks that entries that are too short or too long are refused.
func TestUsersEntriesAreBounded(t *testing.T) {
	for size, want := range map[int]error{1: errEntry, usersHeader - 1: errEntry, usersHeader: nil, usersHeader + acl.MaxText: nil, usersHeader + acl.MaxText + 1: errEntry} {
		if _, _, err := parseUsersEntry(make([]byte, size)); !errors.Is(err, want) {
			t.Errorf("an entry of %d bytes: error %v, want %v", size, err, want)
		}
	}
}

// TestReadUsers reads the users in snapshots.
func TestReadUsers(t *testing.T) {
	for _, tt := range []struct {
		version, size int
		data, want    string
		err           error
	}{
		{usersSnapshotVersion, 4, "textrecords", "text", nil}, {usersSnapshotVersion, 0, "records", "", nil},
		{rulesSnapshotVersion, 4, "records", "", nil}, {snapshotVersion, 4, "records", "", nil},
		{usersSnapshotVersion, 4, "tex", "", errHead}, {usersSnapshotVersion, -1, "text", "", errHead},
		{usersSnapshotVersion, acl.MaxText + 1, strings.Repeat("x", acl.MaxText+1), "", errHead},
	} {
		r := strings.NewReader(tt.data)
		v, err := readUsers(r, &head{Version: tt.version, Users: usersVersion{Number: 7, Size: tt.size}})
		if !errors.Is(err, tt.err) || err == nil && (v.text != tt.want || v.Size != len(tt.want)) {
			t.Errorf("version %d, %d bytes: %+v, error %v; want %q, error %v", tt.version, tt.size, v, err, tt.want, tt.err)
		}
		if err == nil && r.Len() != len("records") {
			t.Errorf("version %d, %d bytes: %d bytes are left, want the records", tt.version, tt.size, r.Len())
		}
	}
}

func FuzzUsersEntry(f *testing.F) {
	f.Add(usersEntryOf(0, ""))
	f.Add(usersEntryOf(1<<63, "user default on nopass ~* &* +@all\n"))
	f.Add([]byte{usersEntry, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		base, text, err := parseUsersEntry(b)
		if err != nil {
			return
		}
		if again := usersEntryOf(base, text); !bytes.Equal(again[1:], b[1:]) {
			t.Errorf("the entry %x was written again as %x", b, again)
		}
	})
}
