package main

import (
	"bufio"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/tests/chaos/history"
)

// TestRulesText checks that all kinds of generated sets are valid, and differ.
func TestRulesText(t *testing.T) {
	hashes := map[string]bool{}
	for _, tt := range []struct {
		content int64
		heavy   bool
		least   int // bytes
		most    int
	}{{1, false, 0, 1 << 10}, {2, false, 0, 1 << 10}, {bigEvery, false, bigBytes, 512 << 10}, {3, true, 0, 8 << 20}} {
		text := rulesText(tt.content, tt.heavy)
		if len(text) < tt.least || len(text) > tt.most || hashes[hashOf(text)] {
			t.Errorf("content %d: %d bytes, want %d to %d, and a hash of its own", tt.content, len(text), tt.least, tt.most)
		}
		hashes[hashOf(text)] = true
		file, err := rules.Parse("rules", []byte(text), time.LoadLocation)
		if err != nil {
			t.Fatalf("content %d: %v", tt.content, err)
		}
		if set, err := rules.Compile(file); err != nil || set.Domain([]byte(rulesDomain)) == nil {
			t.Errorf("content %d: error %v, want a set with the domain %s", tt.content, err, rulesDomain)
		}
	}
}

// parseReply reads a reply that is written in one line, with spaces instead of line ends.
func parseReply(t *testing.T, text string) *reply {
	t.Helper()
	r, err := readReply(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, " ", "\r\n") + "\r\n")))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &r
}

// shown returns a limit in a reply to CL.CHECK.
func shown(name string, limited, limit, remaining int64) string {
	return fmt.Sprintf("*8 $%d %s $2 1h :%d :%d :%d :-1 :7 *0", len(name), name, limited, limit, remaining)
}

// checkReply returns a reply to CL.CHECK.
func checkReply(version uint64, limits ...string) string {
	list := strings.Join(append([]string{fmt.Sprint("*", len(limits))}, limits...), " ")
	return fmt.Sprintf("*9 :0 :1 :1 :-1 :7 $4 left *0 %s :%d", list, version)
}

func TestReadChecked(t *testing.T) {
	got, err := readChecked(parseReply(t, checkReply(9, shown("left", 0, leftBase+5, 3), shown("right", 0, rightBase+6, 2))))
	want := checked{version: 9, limits: map[string]shownLimit{"left": {false, leftBase + 5, 3, -1, 7}, "right": {false, rightBase + 6, 2, -1, 7}}}
	if err != nil || !reflect.DeepEqual(got, want) || got.contents() != [2]int64{5, 6} {
		t.Errorf("got %+v with the contents %v, error %v; want %+v with the contents 5 and 6", got, got.contents(), err, want)
	}
	got, err = readChecked(parseReply(t, checkReply(9, shown("left", 0, leftBase+5, 3))))
	if err != nil || got.contents() != [2]int64{5, history.NoContent} {
		t.Errorf("without the limit right: contents %v, error %v; want 5 and none", got.contents(), err)
	}
	for _, text := range []string{":1", "*0", "*5 :0 :1 :1 :-1 :7", strings.Replace(checkReply(9), "*9", "*8", 1), strings.Replace(checkReply(9), ":9", "+9", 1), checkReply(9, "*1 $1 a")} {
		if got, err := readChecked(parseReply(t, text)); err == nil {
			t.Errorf("%s: got %+v and no error, want an error", text, got)
		}
	}
}

func TestReadVersions(t *testing.T) {
	contents := map[string]int64{"aa": 5}
	contentOf := func(hash string) int64 {
		if content, known := contents[hash]; known {
			return content
		}
		return history.NoContent
	}
	got, err := readVersions(parseReply(t, "*2 *6 $7 version :8 $6 author $1 x $4 hash $2 aa *4 $7 version :7 $4 hash $2 bb"), contentOf)
	if want := []history.Version{{Number: 8, Content: 5}, {Number: 7, Content: history.NoContent}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, error %v; want %v", got, err, want)
	}
	if got, err := readVersions(parseReply(t, "*1 *2 $4 hash $2 aa"), contentOf); err == nil {
		t.Errorf("an entry without a number: got %v, want an error", got)
	}
}

func testRulesClient() *rulesClient {
	l := &rulesLoad{}
	for i := range l.left {
		l.left[i], l.steady[i] = ruleKeys(i)
	}
	return &rulesClient{client: client{id: 3, clock: newClock(), refused: map[string]int{}, lost: map[string]int{}}, load: l}
}

func TestIsFailed(t *testing.T) {
	for text, want := range map[string]bool{
		checkReply(9): false,
		"*9 :1 :0 :0 :1 :1 $1 a *1 $10 failclosed *0 :9":    true,
		"*9 :0 :1 :1 :-1 :7 $1 a *2 $4 soft $5 local *0 :9": true,
		"*9 :0 :1 :1 :-1 :7 $1 a *1 $8 failopen *0 :9":      true,
		"*1 :0": false,
	} {
		if got := isFailed(parseReply(t, text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestRecordCheck checks the records of replies, and that the replies of a pipeline with one version are one record.
func TestRecordCheck(t *testing.T) {
	c := testRulesClient()
	record := func(q checkRequest, f fate, text string) {
		t.Helper()
		r := &reply{}
		if text != "" {
			r = parseReply(t, text)
		}
		c.recordCheck(&q, 0, 5, &answered{reply: *r, fate: f, at: 6})
	}
	left := func(content, used int64) string { return shown("left", 0, leftBase+content, leftBase+content-used) }
	right := func(content int64) string { return shown("right", 0, rightBase+content, 1) }
	record(checkRequest{user: 1}, decided, checkReply(8, left(4, 1), right(4)))
	record(checkRequest{user: 2, hot: true}, decided, checkReply(8, left(4, 6), shown("steady", 0, steadyBurst, 3), right(4)))
	refusal := strings.Replace(checkReply(9, left(5, 6), shown("steady", 1, steadyBurst, 0), right(5)), ":0", ":1", 1)
	record(checkRequest{user: 2, hot: true}, decided, refusal)
	record(checkRequest{user: 1, peek: true}, decided, checkReply(9, left(5, 1), right(5)))
	record(checkRequest{user: 2, hot: true}, unknown, "")
	record(checkRequest{user: 1}, refused, "")
	record(checkRequest{user: trackedUsers}, decided, checkReply(9, left(5, 1), right(5)))
	if len(c.errs) > 0 || c.decided != 5 || len(c.decisions) != 2 || c.decisions[0].Replies != 2 || c.decisions[1].Replies != 3 || c.decisions[1].Contents != [2]int64{5, 5} {
		t.Errorf("got %d decisions in the records %+v, errors %v; want 2 of version 8 and 3 of version 9", c.decided, c.decisions, c.errs)
	}
	var got []string
	for _, o := range c.ops {
		got = append(got, fmt.Sprintf("%s quantity %d outcome %d remaining %d", o.Key.Name, o.Quantity, o.Outcome, o.Remaining))
	}
	want := []string{
		"left:1 quantity 1 outcome 0 remaining 99999", "steady:2 quantity 1 outcome 0 remaining 3", "left:2 quantity 1 outcome 0 remaining 99994",
		"steady:2 quantity 1 outcome 1 remaining 0", "left:2 quantity 0 outcome 0 remaining 99994", "left:1 quantity 0 outcome 0 remaining 99999",
		"left:2 quantity 1 outcome 2 remaining 0", "steady:2 quantity 1 outcome 2 remaining 0",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got the records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	record(checkRequest{user: 1}, decided, checkReply(9, right(5)))
	record(checkRequest{user: 1, hot: true}, decided, checkReply(9, left(5, 1), right(5)))
	record(checkRequest{user: 1}, decided, ":1")
	if len(c.errs) != 3 {
		t.Errorf("three invalid replies: got the errors %v", c.errs)
	}
}

// TestEditOutcome checks the outcomes of changes.
func TestEditOutcome(t *testing.T) {
	for _, tt := range []struct {
		text    string
		outcome history.Outcome
		version uint64
		errs    int
	}{
		{"*4 $7 version :6 $7 changed :1", history.Granted, 6, 0},
		{"-CLUSTERDOWN", history.Limited, 0, 0},
		{"-UNCERTAIN", history.Unknown, 0, 0},
		{"-ERR_version_5_is_not_the_newest_version", history.Limited, 0, 0},
		{"-ERR_write:_the_outcome_is_unknown", history.Unknown, 0, 0},
		{"-ERR_change_the_rules:_context_deadline_exceeded", history.Unknown, 0, 0},
		{"-ERR_invalid", history.Unknown, 0, 1},
		{"*0", history.Unknown, 0, 1},
	} {
		e := &rulesEditor{client: testRulesClient().client}
		r := parseReply(t, tt.text)
		r.text = strings.ReplaceAll(r.text, "_", " ")
		if outcome, version := e.outcome(r, nil); outcome != tt.outcome || version != tt.version || len(e.errs) != tt.errs {
			t.Errorf("%s: got the outcome %d, version %d, errors %v; want %d, %d and %d errors", tt.text, outcome, version, e.errs, tt.outcome, tt.version, tt.errs)
		}
	}
	e := &rulesEditor{client: testRulesClient().client}
	if outcome, _ := e.outcome(&reply{}, errReply); outcome != history.Unknown {
		t.Errorf("without a reply: got the outcome %d, want unknown", outcome)
	}
}

// TestJudgeRuleKeys checks that a unit that is granted twice, and a limit that admits too much, are found.
func TestJudgeRuleKeys(t *testing.T) {
	c := testRulesClient()
	charge := func(k *history.Key, at, remaining int64) history.Op {
		return history.Op{Key: k, Quantity: 1, Call: at, Return: at + 1, Remaining: remaining, ResetAfter: 100}
	}
	good := []history.Op{charge(c.load.left[0], 1, leftUnits-1), charge(c.load.left[0], 3, leftUnits-2)}
	if findings := judgeRuleKeys(c.load, good); len(findings) > 0 {
		t.Errorf("got %v, want no findings", findings)
	}
	twice := append(good, charge(c.load.left[0], 5, leftUnits-2))
	if findings := judgeRuleKeys(c.load, twice); checkersOf(findings) != "witness" {
		t.Errorf("a unit is granted twice: got %v", findings)
	}
	var tooMany []history.Op
	for i := range int64(steadyBurst + 1) {
		tooMany = append(tooMany, charge(c.load.steady[0], i, 0))
	}
	if findings := judgeRuleKeys(c.load, tooMany); checkersOf(findings) != "interval" {
		t.Errorf("%d units of a burst of %d: got %v", len(tooMany), steadyBurst, findings)
	}
}
