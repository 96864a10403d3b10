package rules

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseTests(t *testing.T) {
	got, err := ParseTests("shop_test.yaml", []byte(readAll(t, "testdata/tests/shop_test.yaml")["shop_test.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	login, none, five, zero := "login", "", int64(5), int64(0)
	minutes := func(n int) *time.Duration { d := time.Duration(n) * time.Minute; return &d }
	noWait := time.Duration(-1)
	request := Attributes{"path": "/login", "ip": "192.0.2.1"}
	want := &Tests{Rules: "shop.yaml", RulesLine: 1, Domain: "shop", Start: got.Start, Cases: []TestCase{
		{"five logins in 15 minutes", 5, []TestStep{
			{Line: 6, Check: request, Cost: 1, Times: 5, Expect: &TestExpectation{Decision: "admitted"}},
			{Line: 7, Check: request, Cost: 1, Times: 1, Expect: &TestExpectation{Decision: "refused", By: &login, Limit: &five, Remaining: &zero,
				RetryAfter: minutes(3), ResetAfter: minutes(15), Flags: []string{}, Limits: []string{"login", "api"}}},
			{Line: 18, Wait: 3 * time.Minute, Cost: 1, Times: 1},
			{Line: 19, At: time.Date(2027, 1, 31, 13, 0, 0, 0, time.UTC), Check: Attributes{}, Cost: 1, Peek: true, Times: 1,
				Expect: &TestExpectation{By: &none, RetryAfter: &noWait, ResetAfter: minutes(0), Flags: []string{"unmatched"}}},
		}},
		{"failed logins", 20, []TestStep{{Line: 21, Report: Attributes{"path": "/login", "code": "0123"}, Domain: "other", Cost: 1, Times: 3, Status: 401}}},
	}}
	if !reflect.DeepEqual(got, want) || !got.Start.Equal(time.Date(2027, 1, 31, 10, 59, 0, 0, time.UTC)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	checkKeys(t, testKeys, readAll(t, "testdata/tests/*.yaml")["shop_test.yaml"])
	checkKeys(t, stepKeys, readAll(t, "testdata/tests/*.yaml")["shop_test.yaml"])
	checkKeys(t, expectKeys, readAll(t, "testdata/tests/*.yaml")["shop_test.yaml"])
}

// FuzzParseTests checks that no text makes ParseTests panic, and that the places of errors are in the file.
func FuzzParseTests(f *testing.F) {
	for _, text := range readAll(f, "testdata/tests/*.yaml") {
		f.Add([]byte(text))
	}
	f.Add([]byte("rules: a.yaml\ncases: {a: [{chek: {a: b}, at: 5, times: -1, expect: {by: [], flags: {a: b}}}, {}, {report: 1}], b: c, 1: []}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tests, err := ParseTests("fuzz.yaml", text)
		if err != nil {
			checkErrors(t, string(text), err)
			return
		}
		for _, c := range tests.Cases {
			if len(c.Steps) == 0 || c.Line < 1 {
				t.Errorf("%+v", c)
			}
		}
	})
}

// TestParseTests_Malformed checks the place, the path and the reason of the first error.
func TestParseTests_Malformed(t *testing.T) {
	step := func(text string) string { return "rules: a.yaml\ncases:\n  one:\n    - " + text }
	for text, want := range map[string]string{
		"":                             "x.yaml:1:1: the file has 0 documents",
		"rules: a\n---\nrules: b":      "x.yaml:1:1: the file has 2 documents",
		"rules: [":                     "x.yaml:1:1: not valid YAML",
		"rules: a\t":                   "x.yaml:1:9: tabs are not allowed",
		"cases: {a: [{wait: 1s}]}":     `x.yaml:1:1: rules: the key "rules" is missing`,
		"rules: a":                     `x.yaml:1:1: cases: the key "cases" is missing`,
		"rules: a\ncases: {a: {b: c}}": "x.yaml:2:12: cases.a: the value must be a list of steps",
		"rules: a\ncases: {a: []}":     "x.yaml:2:12: cases.a: the list is empty",
		"rules: a\ncases: []":          "x.yaml:2:8: cases: the value must be a map",
		"rules: a\nstart: 2027-01-31\ncases: {a: [{wait: 1s}]}": `x.yaml:2:8: start: "2027-01-31" is not a time`,
		step("{chek: {a: b}}"):                               `x.yaml:4:8: cases.one[0].chek: unknown key "chek"; did you mean "check"?`,
		step("{check: {a: b}, report: {a: b}, status: 401}"): "x.yaml:4:7: cases.one[0]: the step has check and report",
		step("{report: {a: b}, status: 401, peek: true}"):    "x.yaml:4:7: cases.one[0]: the step has report and peek",
		step("{check: {a: b}, expect: {flags: [unchargd]}}"): `x.yaml:4:40: cases.one[0].expect.flags[0]: "unchargd" is not one of the values of this key; did you mean "uncharged"?`,
		step("{at: 2027-01-31T00:00:00Z, wait: 1s}"):         "x.yaml:4:7: cases.one[0]: the step has at and wait",
		step("{report: {a: b}}"):                             "x.yaml:4:7: cases.one[0]: report and status need each other",
		step("{wait: 1s, times: 5}"):                         `x.yaml:4:7: cases.one[0]: "times" needs a request`,
		step("{check: {a: b}, times: 0}"):                    `x.yaml:4:30: cases.one[0].times: "0" is not an integer from 1`,
		step("{check: {a: b}, expect: refuse}"):              `x.yaml:4:31: cases.one[0].expect: "refuse" is not one of the values`,
		step("{check: {a: b}, expect: {remaining: -1}}"):     `x.yaml:4:43: cases.one[0].expect.remaining: "-1" is not an integer`,
		step("{check: {a: b}, expect: {retry_after: 5}}"):    `x.yaml:4:45: cases.one[0].expect.retry_after: "5" is not a length of time`,
		step("{check: {a: [b]}}"):                            "x.yaml:4:19: cases.one[0].check.a: the value must be a text",
		step("{check: {a: b, a: c}}"):                        `x.yaml:4:22: cases.one[0].check: "a" is repeated`,
		step("{check: {a: b}, wait: 1 month}"):               `x.yaml:4:29: cases.one[0].wait: "1 month" is not a length of time`,
	} {
		tests, err := ParseTests("x.yaml", []byte(text))
		if err == nil || tests != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}
