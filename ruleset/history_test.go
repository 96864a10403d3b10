package ruleset

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestHistoryIsBounded checks the numbers of versions and of texts.
func TestHistoryIsBounded(t *testing.T) {
	s, l := newLocal()
	const total = maxVersions + 20
	for i := range total {
		propose(t, l, textOf(fmt.Sprintf("l%d", i)))
	}
	list := s.History()
	if len(list) != maxVersions || list[0].Number != total || list[maxVersions-1].Number != total-maxVersions+1 {
		t.Errorf("the history has %d versions, from %d to %d", len(list), list[len(list)-1].Number, list[0].Number)
	}
	for _, v := range list {
		_, _, err := s.Text(v.Number)
		if stored := v.Number > total-maxTexts; stored != (err == nil) || !stored && !errors.Is(err, ErrNoText) {
			t.Errorf("version %d of %d: Text returned the error %v", v.Number, total, err)
		}
	}
}

// TestOldFilesHaveNoEffect checks that the text of a file is known after more than maxVersions changes, also after the state
// was restored from a snapshot.
func TestOldFilesHaveNoEffect(t *testing.T) {
	s, l := newLocal()
	for i := range maxVersions + 20 {
		propose(t, l, textOf(fmt.Sprintf("l%d", i)))
	}
	var b bytes.Buffer
	if err := s.State().Write(&b); err != nil {
		t.Fatal(err)
	}
	state, err := ReadState(&b)
	if err != nil {
		t.Fatal(err)
	}
	restored := NewStore()
	restored.Restore(state)
	for _, store := range []*Store{s, restored} {
		for _, i := range []int{0, 19, 20} {
			p := Proposal{Text: textOf(fmt.Sprintf("l%d", i)), OnlyNew: true}
			if n, err := store.Prepare(t.Context(), p, testTime); err != nil || n.Changed {
				t.Errorf("the text of version %d is prepared as %+v, error %v; want no change", i+1, n, err)
			}
			p.OnlyNew = false
			if n, err := store.Prepare(t.Context(), p, testTime); err != nil || !n.Changed {
				t.Errorf("CL.RULES SET of the text of version %d is prepared as %+v, error %v; want a change", i+1, n, err)
			}
		}
	}
}

// TestDigestsAreBounded checks that the oldest digests are removed, and hashes that are not hexadecimal.
func TestDigestsAreBounded(t *testing.T) {
	d := make(digests, maxDigests)
	first, second := HashOf("a"), HashOf("b")
	d = d.add(history{{Version: Version{Hash: first}}, {Version: Version{Hash: second}}})
	if len(d) != maxDigests || !d.has(first) || !d.has(second) || d.has(HashOf("c")) {
		t.Errorf("%d bytes, want %d with both hashes", len(d), maxDigests)
	}
	if d = (digests)(nil).add(history{{Version: Version{Hash: "x"}}}); len(d) != digestSize || d.has(first) {
		t.Errorf("a hash that is not valid has %d bytes", len(d))
	}
}

// TestTextsAreBoundedInSize checks that the texts together do not exceed their bound, and that the newest one is kept.
func TestTextsAreBoundedInSize(t *testing.T) {
	var h history
	for i, size := range []int{maxPacked / 2, maxPacked / 2, maxPacked / 4, maxPacked + 1, 1} {
		before := h
		h = h.add(record{Version{Number: uint64(i + 1)}, make([]byte, size)})
		if len(before) > 0 && before.newest().packed == nil {
			t.Errorf("adding version %d has changed the history before it", i+1)
		}
	}
	for i, want := range []bool{false, false, false, false, true} {
		if got := h[i].packed != nil; got != want {
			t.Errorf("the text of version %d is stored: %t, want %t", i+1, got, want)
		}
	}
}

func TestPack(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("limits: {}\n", 1000)} {
		v := Version{Hash: HashOf(text)}
		got, err := unpack(pack(text), &v)
		if got != text || err != nil {
			t.Errorf("a text of %d bytes was unpacked to %d bytes, error %v", len(text), len(got), err)
		}
	}
	if size := len(pack(strings.Repeat("limits: {}\n", 1000))); size > 1000 {
		t.Errorf("a repetitive text of 11,000 bytes is packed to %d bytes, want at most 1,000", size)
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		text string
		size int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aé", 2, "a"}, {"é", 1, ""}, {"a\xff", 5, "a?"}, {"", 0, ""},
	} {
		if got := clip(test.text, test.size); got != test.want {
			t.Errorf("clip(%q, %d) is %q, want %q", test.text, test.size, got, test.want)
		}
	}
}
