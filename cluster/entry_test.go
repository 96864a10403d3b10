package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestChangesEntry(t *testing.T) {
	want := changes{term: 1, epoch: 2, generation: 3, time: 4, wall: -5, data: []byte("data")}
	b := append(make([]byte, changesHeader), want.data...)
	want.seal(b)
	if b[0] != changesEntry {
		t.Errorf("the kind is %d, want changesEntry", b[0])
	}
	got, err := parseChanges(b)
	if err != nil || !bytes.Equal(got.data, want.data) {
		t.Errorf("parsed %+v, error %v; want the same data", got, err)
	}
	got.data, want.data = nil, nil
	if got.term != want.term || got.epoch != want.epoch || got.generation != want.generation || got.time != want.time || got.wall != want.wall {
		t.Errorf("parsed %+v, want %+v", got, want)
	}
	for n := range changesHeader {
		if _, err := parseChanges(b[:n]); !errors.Is(err, errEntry) {
			t.Errorf("the first %d bytes of an entry: error %v, want errEntry", n, err)
		}
	}
}

func TestAnnouncementEntry(t *testing.T) {
	want := Announcement{ID: "n1", Incarnation: "x", Host: "h", Port: 1, ClusterPort: 2, SentinelPort: 3, LeaderPort: 4}
	b, err := want.entry()
	if err != nil || b[0] != memberEntry {
		t.Fatalf("entry %q, error %v; want the kind memberEntry", b, err)
	}
	if got, err := parseAnnouncement(b); err != nil || got != want {
		t.Errorf("parsed %+v, error %v; want the announcement that was written", got, err)
	}
	if _, err := parseAnnouncement([]byte{memberEntry, '{'}); !errors.Is(err, errEntry) {
		t.Errorf("an incomplete announcement: %v, want errEntry", err)
	}
}

func FuzzParseChanges(f *testing.F) {
	sealed := make([]byte, changesHeader+3)
	(&changes{term: 7, epoch: 1, generation: 9, time: 1 << 60, wall: 1}).seal(sealed)
	f.Add(sealed)
	f.Add(sealed[:changesHeader])
	f.Add(sealed[:changesHeader-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseChanges(b)
		if err != nil {
			if len(b) >= changesHeader {
				t.Errorf("an entry of %d bytes was rejected: %v", len(b), err)
			}
			return
		}
		again := append(make([]byte, changesHeader), c.data...)
		c.seal(again)
		if !bytes.Equal(again[1:], b[1:]) {
			t.Errorf("entry %x was parsed and written again as %x", b, again)
		}
	})
}

func FuzzParseAnnouncement(f *testing.F) {
	b, err := (&Announcement{ID: "n1", Incarnation: "x", Host: "::1", Port: 6380}).entry()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{memberEntry})
	f.Add([]byte(`.{"port":1e99}`))
	f.Add([]byte(`.{"id":"\u0000","port":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // fsm.apply rejects empty entries
		}
		a, err := parseAnnouncement(b)
		if err != nil {
			return
		}
		again, err := a.entry()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseAnnouncement(again); err != nil || got != a {
			t.Errorf("announcement %+v was written and parsed again as %+v, error %v", a, got, err)
		}
	})
}

func FuzzReadHead(f *testing.F) {
	b, err := json.Marshal(head{Version: snapshotVersion, Cluster: "c", Index: 5, Time: 6, Announced: []Announcement{{ID: "n1"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(lengthOf(len(b)), b...))
	f.Add(lengthOf(maxHead + 1))
	f.Add(append(lengthOf(2), "{}"...))
	f.Add(append(lengthOf(1<<19), b...))
	f.Add([]byte{1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHead(bytes.NewReader(b))
		if (h == nil) == (err == nil) {
			t.Fatalf("head %+v, error %v; want exactly one of them", h, err)
		}
		if err != nil && !errors.Is(err, errHead) {
			t.Errorf("readHead returned %v, which does not wrap errHead", err)
		}
		if err == nil && (h.Version < snapshotVersion || h.Version > usersSnapshotVersion) {
			t.Errorf("a head with another version was accepted: %+v", h)
		}
	})
}
