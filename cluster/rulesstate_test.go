package cluster

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/ruleset"
)

// rulesText returns a valid text of a rule set whose only limit has the given name.
func rulesText(limit string) string {
	return "version: 1\ndomain: shop\nlimits:\n  " + limit + ": {allow: 5 per minute}\n"
}

// prepare returns the version and the compressed text that follow the versions in a store.
func prepare(t *testing.T, s *ruleset.Store, text string) *ruleset.Prepared {
	t.Helper()
	n, err := s.Prepare(t.Context(), ruleset.Proposal{Text: text, Author: "test"}, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRulesEntries applies sequences of entries of one proposal, and checks whether the version becomes active. Entries
// are named by a letter: a, b and c are the chunks, and v is the version. An upper-case letter is an entry that was
// proposed in an earlier term, a digit is the first chunk of another proposal, and - is a snapshot and a restore.
func TestRulesEntries(t *testing.T) {
	n := prepare(t, ruleset.NewStore(), rulesText("a"))
	third := len(n.Packed) / 3
	for sequence, want := range map[string]bool{
		"abcv": true, "-a-b-c-v-": true, "aabcv": true, "ababcv": true, "1abcv": true, "abbcv": true, "aBbcv": true,
		"": false, "v": false, "abc": false, "abv": false, "acv": false, "bcv": false, "acbv": false,
		"Abcv": false, "aBcv": false, "abcV": false, "abc1v": false, "ab1cv": false, "-a-b-v": false, "abcVv": true,
	} {
		s := &rulesState{store: ruleset.NewStore()}
		for _, entry := range sequence {
			applyRulesEntry(t, &s, n, third, entry)
		}
		if got := s.store.Newest() == n.Version; got != want {
			t.Errorf("entries %q: the version is active: %t, want %t", sequence, got, want)
		}
		s.store.CompileNewest()
		if a := s.store.Active(); want && (a.Version != 1 || a.Err != nil) {
			t.Errorf("entries %q: the active set is %+v, want version 1", sequence, a)
		}
	}
}

// applyRulesEntry applies one entry of TestRulesEntries. It replaces the state for a snapshot.
func applyRulesEntry(t *testing.T, s **rulesState, n *ruleset.Prepared, third int, entry rune) {
	t.Helper()
	const term = 7
	log := &raft.Log{Term: term}
	if entry >= 'A' && entry <= 'Z' {
		log.Term, entry = term+1, entry+'a'-'A'
	}
	offset := int(entry-'a') * third
	switch entry {
	case '-':
		*s = restoredRules(t, *s)
	case '1':
		(*s).applyChunk(log, &rulesChunk{term: term, id: 99, data: []byte("other")})
	case 'v':
		(*s).applyVersion(log, &rulesVersion{Term: term, ID: 5, Size: len(n.Packed), Version: n.Version})
	case 'c':
		(*s).applyChunk(log, &rulesChunk{term: term, id: 5, offset: uint64(offset), data: n.Packed[offset:]})
	default:
		(*s).applyChunk(log, &rulesChunk{term: term, id: 5, offset: uint64(offset), data: n.Packed[offset : offset+third]})
	}
}

// restoredRules returns the state that is restored from a snapshot of s.
func restoredRules(t *testing.T, s *rulesState) *rulesState {
	t.Helper()
	c := s.copied()
	var b bytes.Buffer
	h := &head{Version: snapshotVersion}
	if !c.isEmpty() {
		h.Version, h.RulesPart = rulesSnapshotVersion, c.part
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("records")
	read, err := readRules(&b, h)
	if err != nil || b.String() != "records" {
		t.Fatalf("readRules returned the error %v and left %q, want %q", err, b.String(), "records")
	}
	restored := &rulesState{store: ruleset.NewStore()}
	restored.restore(read)
	return restored
}

// TestRulesPartIsBounded checks that chunks beyond the maximum size are void.
func TestRulesPartIsBounded(t *testing.T) {
	s := &rulesState{store: ruleset.NewStore()}
	data := make([]byte, 1<<20)
	for i := range uint64(20) {
		s.applyChunk(&raft.Log{Term: 1}, &rulesChunk{term: 1, id: 1, offset: i << 20, data: data})
	}
	if s.part.Size != 16<<20 || len(s.part.data) != 16<<20 {
		t.Errorf("the part has %d bytes, want 16 MiB", s.part.Size)
	}
}

// TestRulesEntriesAreParsed writes and parses the entries of rules.
func TestRulesEntriesAreParsed(t *testing.T) {
	c := rulesChunk{1, 2, 3, []byte("data")}
	if got, err := parseRulesChunk(c.entry()); err != nil || got.term != 1 || got.id != 2 || got.offset != 3 || string(got.data) != "data" {
		t.Errorf("the chunk %+v was parsed as %+v, error %v", c, got, err)
	}
	v := rulesVersion{Term: 1, ID: 1<<64 - 1, Size: 3, Version: prepare(t, ruleset.NewStore(), rulesText("a")).Version}
	b, err := v.entry()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parseRulesVersion(b); err != nil || got != v {
		t.Errorf("the version %+v was parsed as %+v, error %v", v, got, err)
	}
	if _, err := parseRulesChunk(c.entry()[:chunkHeader-1]); !errors.Is(err, errEntry) {
		t.Errorf("a short chunk: error %v, want errEntry", err)
	}
	if _, err := parseRulesVersion(b[:len(b)-1]); !errors.Is(err, errEntry) {
		t.Errorf("a short version: error %v, want errEntry", err)
	}
}

func FuzzRulesEntries(f *testing.F) {
	c := rulesChunk{1, 2, 0, []byte("data")}
	f.Add(c.entry())
	f.Add([]byte(`.{"term":1,"id":2,"size":4,"version":{"number":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // fsm.apply rejects empty entries
		}
		s := &rulesState{store: ruleset.NewStore()}
		if c, err := parseRulesChunk(b); err == nil {
			s.applyChunk(&raft.Log{Term: c.term}, &c)
			if !bytes.Equal(c.entry()[1:], b[1:]) {
				t.Errorf("the entry %x was written again as %x", b, c.entry())
			}
		}
		if v, err := parseRulesVersion(b); err == nil {
			s.part = rulesPart{Term: v.Term, ID: v.ID, Size: v.Size}
			s.applyVersion(&raft.Log{Term: v.Term}, &v)
			s.store.CompileNewest()
		}
	})
}

// TestReadRulesErrors checks that damaged rules in a snapshot are refused.
func TestReadRulesErrors(t *testing.T) {
	s := &rulesState{store: ruleset.NewStore()}
	n := prepare(t, s.store, rulesText("a"))
	s.store.Activate(n.Version, n.Packed)
	s.part = rulesPart{Term: 1, ID: 1, Size: 4, data: []byte("data")}
	c := s.copied()
	var b bytes.Buffer
	if err := c.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{-1, 5, maxRulesData + 1} {
		part := c.part
		part.Size = size
		if _, err := readRules(bytes.NewReader(b.Bytes()), &head{Version: rulesSnapshotVersion, RulesPart: part}); err == nil {
			t.Errorf("a part of %d bytes was read from a snapshot with 4", size)
		}
	}
	for i := range b.Len() {
		if _, err := readRules(bytes.NewReader(b.Bytes()[:i]), &head{Version: rulesSnapshotVersion, RulesPart: c.part}); err == nil {
			t.Fatalf("rules were read from the first %d of %d bytes", i, b.Len())
		}
	}
}

// TestQuestionBody checks which bodies of questions are read.
func TestQuestionBody(t *testing.T) {
	for _, test := range []struct {
		about topic
		size  int
		sent  string
		want  string // body; "-" for an error
	}{
		{topicPropose, 4, "\ntext", "text"}, {topicPropose, 0, "\ntext", ""}, {topicTime, 0, "\n", ""},
		{topicPropose, 4, "\ntex", "-"}, {topicPropose, 4, "text!", "-"}, {topicTime, 4, "\ntext", "-"},
		{topicPropose, -1, "\ntext", "-"}, {topicPropose, ruleset.MaxText + 1, "\ntext", "-"},
		{topicProposeUsers, 4, "\ntext", "text"}, {topicProposeUsers, acl.MaxText + 1, "\n" + strings.Repeat("x", acl.MaxText+1), "-"},
	} {
		q := Question{About: test.about, Size: test.size}
		err := q.readBody(strings.NewReader(test.sent))
		if got := string(q.body); (err != nil) != (test.want == "-") || err == nil && got != test.want {
			t.Errorf("%s, size %d, %q: body %q, error %v; want %q", test.about, test.size, test.sent, got, err, test.want)
		}
		if err != nil && !errors.Is(err, errBody) {
			t.Errorf("%s, size %d: error %v, want errBody", test.about, test.size, err)
		}
	}
}

// numbersOf returns the numbers of versions.
func numbersOf(list []ruleset.Version) (numbers []uint64) {
	for _, v := range list {
		numbers = append(numbers, v.Number)
	}
	slices.Sort(numbers)
	return numbers
}
