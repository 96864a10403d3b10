package rules

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Tests is the content of a test file: requests with their times, and the decisions that are expected.
type Tests struct {
	Rules     string    // name of the rules file, relative to the directory of the test file
	RulesLine int       // line with that name
	Domain    string    // domain of the requests; "" if the rules file has one domain
	Start     time.Time // time at which each case begins
	Cases     []TestCase
}

// TestCase is a sequence of steps that begins without used units.
type TestCase struct {
	Name  string
	Line  int
	Steps []TestStep
}

// TestStep advances the time, and sends a request.
type TestStep struct {
	Line   int
	At     time.Time     // time of the request; zero if not set
	Wait   time.Duration // time since the step before
	Check  Attributes    // of a request; nil if the step has none
	Report Attributes    // of a report after a request; nil if the step has none
	Domain string        // "" for Tests.Domain
	Cost   int64         // units of the request; 1 if not set
	Peek   bool
	Times  int // number of requests, at least 1
	Status int // outcome of a report
	Expect *TestExpectation
}

// TestExpectation is compared with each decision of a step. A field that is not set is not compared.
type TestExpectation struct {
	Decision   string // "admitted" or "refused"
	By         *string
	Limit      *int64
	Remaining  *int64
	RetryAfter *time.Duration // -1 if no wait helps, or the request is admitted
	ResetAfter *time.Duration
	Flags      []string // as in testFlags; nil if not set
	Limits     []string // names of the limits that apply, in the order of the file; nil if not set
}

// DefaultStart is the time at which the cases of a test file begin unless it has another one: midnight UTC, a Friday.
var DefaultStart = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// noWait is the text of a RetryAfter of -1.
const noWait = "none"

var decisions = []string{"admitted", "refused"}

// testFlags are the flags of the reply to CL.CHECK or CL.REPORT. A test has a leader, so those without one are missing.
var testFlags = []string{"soft", "warn", "banned", "shadow", "report", "default", "unmatched", "uncharged"}

// testKeys are the keys of a test file.
var testKeys = keys[Tests]{
	{name: "rules", required: true, doc: "the rules file, relative to this file", value: textSchema, example: "shop.yaml",
		decode: func(d *decoder, v value, x *Tests) { x.Rules, x.RulesLine = d.anyText(v), v.Line }},
	{name: "domain", doc: "the domain of the requests; not needed if the rules have one domain", value: nameSchema, example: "shop",
		decode: func(d *decoder, v value, x *Tests) { x.Domain, _ = d.name(v) }},
	{name: "start", doc: "the time at which each case begins; 2027-01-01T00:00:00Z if absent", value: timeSchema, example: "2027-01-31T18:00:00+01:00",
		decode: func(d *decoder, v value, x *Tests) { x.Start = d.instant(v) }},
	{name: "cases", required: true, doc: "a list of steps for each case, by the name of the case",
		value:   &schema{Title: "map from the name of each case to its steps", Type: []string{"object"}, MinKeys: 1, Others: listSchema(stepKeys.schema())},
		example: "{five logins: [{check: {path: /login}, times: 5, expect: admitted}]}",
		decode:  func(d *decoder, v value, x *Tests) { x.Cases = d.testCases(v) }},
}

// stepKeys are the keys of a step.
var stepKeys = keys[TestStep]{
	{name: "at", doc: "the time of the request; not before the step before", value: timeSchema, example: "2027-01-31T18:00:00Z",
		decode: func(d *decoder, v value, s *TestStep) { s.At = d.instant(v) }},
	{name: "wait", doc: "the time since the step before; 0 if absent", value: durationSchema, example: "15m",
		decode: func(d *decoder, v value, s *TestStep) { s.Wait = d.duration(v) }},
	{name: "check", doc: "the attributes of a request", value: attributesSchema, example: "{path: /login, ip: 192.0.2.1}",
		decode: func(d *decoder, v value, s *TestStep) { s.Check = d.testAttributes(v) }},
	{name: "report", doc: "the attributes of a report about the outcome of a request", value: attributesSchema, example: "{path: /login, ip: 192.0.2.1}",
		decode: func(d *decoder, v value, s *TestStep) { s.Report = d.testAttributes(v) }},
	{name: "status", doc: "the status code that is reported", value: integerSchema(100, 599), example: "401",
		decode: func(d *decoder, v value, s *TestStep) { s.Status = d.integerInt(v, 100, 599) }},
	{name: "domain", doc: "another domain than that of the file", value: nameSchema, example: "billing",
		decode: func(d *decoder, v value, s *TestStep) { s.Domain, _ = d.name(v) }},
	{name: "cost", doc: "the units of the request; 1 if absent", value: integerSchema(1, math.MaxInt64), example: "10",
		decode: func(d *decoder, v value, s *TestStep) { s.Cost, _ = d.integer(v, 1, math.MaxInt64) }},
	{name: "peek", doc: "true: the request is not charged; false if absent; not with report", value: booleanSchema, example: "true",
		decode: func(d *decoder, v value, s *TestStep) { s.Peek = d.boolean(v) }},
	{name: "times", doc: "the number of requests at this time; 1 if absent", value: integerSchema(1, maxTimes), example: "5",
		decode: func(d *decoder, v value, s *TestStep) { s.Times = d.integerInt(v, 1, maxTimes) }},
	{name: "expect", doc: "admitted, refused, or a map with parts of the decision, which each of the requests must have; a report is refused if not all of its units fit", value: expectSchema, example: "{decision: refused, by: login, retry_after: 3m}",
		decode: func(d *decoder, v value, s *TestStep) { s.Expect = d.expectation(v) }},
}

// maxTimes is the maximum number of requests of a step.
const maxTimes = 1_000_000

// expectKeys are the keys of "expect".
var expectKeys = keys[TestExpectation]{
	{name: "decision", doc: "admitted or refused", value: choiceSchema(decisions...), example: "refused",
		decode: func(d *decoder, v value, e *TestExpectation) { e.Decision = decisions[d.choose(v, decisions)] }},
	{name: "by", doc: `the name of the limit that decides; "" is the default`, value: anyTextSchema, example: "login",
		decode: func(d *decoder, v value, e *TestExpectation) { text, _ := d.text(v); e.By = &text }},
	{name: "limit", doc: "the maximum number of units of that limit", value: countSchema, example: "5",
		decode: func(d *decoder, v value, e *TestExpectation) { e.Limit = d.count(v) }},
	{name: "remaining", doc: "the units that remain", value: countSchema, example: "4",
		decode: func(d *decoder, v value, e *TestExpectation) { e.Remaining = d.count(v) }},
	{name: "retry_after", doc: "the time until the request would be admitted; none if it is, or if no wait helps", value: waitSchema, example: "3m",
		decode: func(d *decoder, v value, e *TestExpectation) { e.RetryAfter = d.waitTime(v) }},
	{name: "reset_after", doc: "the time until the full limit is available", value: waitSchema, example: "15m",
		decode: func(d *decoder, v value, e *TestExpectation) { e.ResetAfter = d.waitTime(v) }},
	{name: "flags", doc: "all flags of the decision: " + strings.Join(testFlags, ", "), value: flagsSchema, example: "[warn]",
		decode: func(d *decoder, v value, e *TestExpectation) { e.Flags = d.flags(v) }},
	{name: "limits", doc: "the names of all limits that apply, in the order of the reply", value: emptyListSchema, example: "[login, api]",
		decode: func(d *decoder, v value, e *TestExpectation) { e.Limits = d.words(v) }},
}

// The schemas of values in test files.
var (
	timeSchema       = &schema{Title: "time", Type: []string{"string"}, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}T.+$`}
	anyTextSchema    = &schema{Title: "text", Type: textSchema.Type}
	attributesSchema = &schema{Title: "map from attributes to values", Type: []string{"object"}, Others: anyTextSchema}
	countSchema      = &schema{Title: "integer of at least 0", Type: []string{"integer", "string"}, Pattern: `^[0-9]+$`}
	waitSchema       = &schema{Title: "length of time, 0 or none", AnyOf: []*schema{durationSchema, choiceSchema("0", noWait), {Enum: []any{0}}}}
	emptyListSchema  = &schema{Title: "list of words", AnyOf: []*schema{anyTextSchema, {Type: []string{"array"}, Items: anyTextSchema}}}
	flagsSchema      = &schema{Title: "list of flags", AnyOf: []*schema{choiceSchema(testFlags...), {Type: []string{"array"}, Items: choiceSchema(testFlags...)}}}
	expectSchema     = &schema{Title: "admitted, refused, or map", AnyOf: []*schema{choiceSchema(decisions...), expectKeys.schema()}}
)

// TestSchema returns the JSON Schema (draft 7) of a test file. See Schema.
func TestSchema() []byte {
	return testKeys.schema().document("test file of throttled")
}

// ParseTests parses the text of a test file. The name of the file is used for errors only. The error is of type Errors.
func ParseTests(name string, text []byte) (*Tests, error) {
	src, errs := newSource(name, text)
	if len(errs) > 0 {
		return nil, errs
	}
	roots, err := src.documents()
	if err != nil {
		return nil, Errors{src.syntaxError(err)}
	}
	if len(roots) != 1 {
		return nil, Errors{src.errorAt(1, 1, fmt.Sprintf("the file has %d documents, and must have one", len(roots)), "write rules and cases")}
	}
	d := &decoder{report: &report{src: src, refused: map[*yaml.Node]bool{}}}
	root := value{roots[0], place{}}
	treeCheck{d.report}.checkTree(root, 1)
	tests := &Tests{Start: DefaultStart}
	testKeys.decode(d, root, tests)
	if len(d.errs) > 0 {
		return nil, d.errs.sorted()
	}
	return tests, nil
}

// testCases decodes the cases.
func (d *decoder) testCases(v value) []TestCase {
	if !d.isMap(v, example("the name of a case, and its steps")) {
		return nil
	}
	var cases []TestCase
	for e := range v.entries() {
		if d.refused[e.key.Node] {
			continue
		}
		c := TestCase{Name: e.key.Value, Line: e.key.Line}
		if e.value.Kind != yaml.SequenceNode {
			d.fail(e.value, "the value must be a list of steps", "write each step as - {check: {path: /login}, expect: admitted}")
			continue
		}
		d.list(e.value, func(item value) { c.Steps = append(c.Steps, d.testStep(item)) })
		cases = append(cases, c)
	}
	return cases
}

// testStep decodes a step.
func (d *decoder) testStep(v value) TestStep {
	s := TestStep{Line: v.Line, Cost: 1, Times: 1}
	if !stepKeys.decode(d, v, &s) {
		return s
	}
	has := v.keySet()
	switch {
	case has["check"] && has["report"]:
		d.fail(v, "the step has check and report", "write two steps")
	case has["at"] && has["wait"]:
		d.fail(v, "the step has at and wait", "remove one of them")
	case has["report"] != has["status"]:
		d.fail(v, "report and status need each other", "write report: {path: /login} and status: 401")
	case has["report"] && has["peek"]:
		d.fail(v, "the step has report and peek: a report always charges", "remove peek, or write check")
	case !has["check"] && !has["report"]:
		for _, name := range []string{"expect", "times", "cost", "peek"} {
			if has[name] {
				d.fail(v, fmt.Sprintf("%q needs a request", name), "add check, with the attributes of the request")
			}
		}
	}
	return s
}

// testAttributes decodes the attributes of a request. The result is not nil.
func (d *decoder) testAttributes(v value) Attributes {
	request := Attributes{}
	if v.Kind == yaml.MappingNode && len(v.Content) == 0 {
		return request // a request without attributes
	}
	if d.isMap(v, example("attributes and their values, such as {path: /login}")) {
		for e := range v.entries() {
			if name, ok := d.name(e.key.at(e.value)); ok {
				request[name], _ = d.text(e.value)
			}
		}
	}
	return request
}

// expectation decodes a decision, or a map.
func (d *decoder) expectation(v value) *TestExpectation {
	e := &TestExpectation{}
	if v.Kind == yaml.MappingNode {
		expectKeys.decode(d, v, e)
	} else {
		e.Decision = decisions[d.choose(v, decisions)]
	}
	return e
}

// instant decodes a time.
func (r *report) instant(v value) time.Time {
	text, ok := r.text(v)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.fail(v, fmt.Sprintf("%q is not a time", clip(text)), "write 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00")
	}
	return t
}

// count decodes an integer of at least 0.
func (r *report) count(v value) *int64 {
	n, _ := r.integer(v, 0, math.MaxInt64)
	return &n
}

// waitTime decodes a length of time, 0, or "none".
func (r *report) waitTime(v value) *time.Duration {
	wait := time.Duration(0)
	switch v.Value {
	case noWait:
		wait = -1
	case "0":
	default:
		wait = r.duration(v)
	}
	return &wait
}

// flags decodes a list of flags, which may be empty. The result is not nil.
func (r *report) flags(v value) []string {
	flags := []string{}
	for _, item := range v.items() {
		flags = append(flags, testFlags[r.choose(item, testFlags)])
	}
	return flags
}

// words decodes a list of texts, which may be empty. The result is not nil.
func (r *report) words(v value) []string {
	words := []string{}
	for _, item := range v.items() {
		text, _ := r.text(item)
		words = append(words, text)
	}
	return words
}
