package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const labRules = `version: 1
domain: shop
attributes:
  client: {first_of: [api_key, ip]}
default: {allow: 10/min, per: ip}
limits:
  login:
    when: {path: /login}
    per: ip
    allow: 5 per 15m
    charge: {status: [401]}
    ban: {after: 2 per 1h, for: 30m}
  api:
    when: {path: /api/*}
    per: client
    allow: [20/min burst 3, 1000/day]
    cost: {path: {/api/export: 3}}
    warn: 80%
    retry_jitter: 100%
    overrides:
      - {during: {between: "01:00-06:00", zone: Europe/Berlin}, allow: unlimited}
  month:
    when: {path: /report}
    allow: 2 per month
    algorithm: fixed
    zone: Europe/Berlin
`

const labTests = `rules: shop.yaml
start: 2027-01-31T12:00:00+01:00
cases:
  a burst, and then one request per 3 seconds:
    - {check: {path: /api/x, api_key: k}, times: 2, expect: {decision: admitted, by: api, limits: [api]}}
    - {check: {path: /api/x, api_key: k}, expect: {decision: admitted, remaining: 0, flags: [warn]}}
    - {check: {path: /api/x, api_key: k}, expect: {decision: refused, limit: 3, retry_after: 3s, reset_after: 9s}}
    - {check: {path: /api/x, api_key: other}, expect: admitted}
    - {wait: 2999ms, check: {path: /api/x, api_key: k}, expect: {decision: refused, retry_after: 1ms}}
    - {wait: 1ms, check: {path: /api/x, api_key: k}, expect: admitted}
  each case begins without used units:
    - {check: {path: /api/export, api_key: k}, expect: {decision: admitted, remaining: 0}}
    - {check: {path: /api/x, api_key: k}, peek: true, expect: {decision: admitted, retry_after: none}}
  at night, the limit does not apply:
    - {at: 2027-02-01T01:00:00+01:00, check: {path: /api/x}, times: 100, expect: admitted}
    - {at: 2027-02-01T06:00:00+01:00, check: {path: /api/x}, times: 3, expect: admitted}
    - {check: {path: /api/x}, expect: refused}
  a month ends at midnight in Berlin:
    - {check: {path: /report}, cost: 2, expect: admitted}
    - {check: {path: /report}, expect: {decision: refused, retry_after: 12h}}
    - {wait: 12h, check: {path: /report}, expect: admitted}
  failed logins are charged, and lead to a ban:
    - {check: {path: /login, ip: 192.0.2.1}, times: 10, expect: {decision: admitted, remaining: 4, flags: [report]}}
    - {report: {path: /login, ip: 192.0.2.1}, status: 200, times: 9, expect: {decision: admitted, limits: [], flags: [uncharged]}}
    - {report: {path: /login, ip: 192.0.2.1}, status: 401, times: 4, expect: {decision: admitted, by: login, flags: [report]}}
    - {report: {path: /login, ip: 192.0.2.1}, status: 401, cost: 2, expect: {decision: refused, remaining: 0, retry_after: none}}
    - {check: {path: /login, ip: 192.0.2.1}, times: 2, expect: {decision: refused, retry_after: 3m}}
    - {wait: 29m}
    - {check: {path: /login, ip: 192.0.2.1}, expect: {decision: refused, retry_after: 1m, flags: [banned, report]}}
    - {wait: 1m, check: {path: /login, ip: 192.0.2.1}, expect: admitted}
  refusals of different hours do not lead to a ban:
    - {report: {path: /login, ip: 192.0.2.1}, status: 401, cost: 5}
    - {check: {path: /login, ip: 192.0.2.1}, expect: refused}
    - {wait: 2h, report: {path: /login, ip: 192.0.2.1}, status: 401, cost: 5}
    - {check: {path: /login, ip: 192.0.2.1}, expect: refused}
    - {wait: 15m, check: {path: /login, ip: 192.0.2.1}, expect: {decision: admitted, flags: [report]}}
  the default:
    - {check: {path: /, ip: 192.0.2.1}, expect: {by: "", flags: [default], limit: 10}}
`

// envoyTests checks that a limit of Envoy's service is charged by the requests that it refuses.
const envoyTests = `rules: envoy.yaml
cases:
  refused requests are charged:
    - {check: {descriptor: ip, ip: a}, cost: 3, expect: {decision: admitted, remaining: 2}}
    - {check: {descriptor: ip, ip: a}, cost: 3, expect: refused}
    - {check: {descriptor: ip, ip: a}, expect: {decision: refused, remaining: 0}}
    - {check: {descriptor: ip, ip: b}, expect: admitted}
    - {check: {descriptor: "ip,ip", ip: a}, expect: {decision: admitted, flags: unmatched}}
    - {wait: 1m, check: {descriptor: ip, ip: a}, expect: admitted}
`

// TestRulesTest runs test files that pass and that fail.
func TestRulesTest(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"shop.yaml":           labRules,
		"shop_test.yaml":      labTests,
		"wrong_test.yaml":     "rules: shop.yaml\ncases: {one: [{check: {path: /report}, times: 3, expect: {decision: admitted, remaining: 1}}]}",
		"report_test.yaml":    "rules: shop.yaml\ncases: {one: [{report: {path: /login, ip: '::1'}, status: 401, expect: {decision: refused, remaining: 99, reset_after: 3m}}]}",
		"malformed_test.yaml": "rules: shop.yaml\ncases: {one: [{chek: {a: b}}]}",
		"missing_test.yaml":   "# no rules\nrules: no.yaml\ncases: {one: [{check: {a: b}}]}",
		"domain_test.yaml":    "rules: shop.yaml\ndomain: bank\ncases: {one: [{check: {a: b}}]}",
		"envoy.yaml":          importedRules,
		"envoy_test.yaml":     envoyTests,
		"two.yaml":            labRules + "---\nversion: 1\ndomain: bank\nlimits: {all: {allow: 1/s}}\n",
		"two_test.yaml":       "rules: two.yaml\ncases: {one: [{check: {a: b}}]}",
		"bank_test.yaml":      "rules: two.yaml\ndomain: bank\ncases: {one: [{check: {a: b}, expect: {by: all}}, {check: {}, domain: shop, expect: {by: ''}}]}",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string // all of stdout, and a part of stderr
	}{
		{"shop_test.yaml", exitOK, "ok\tshop_test.yaml\t7 cases\n", ""},
		{"envoy_test.yaml", exitOK, "ok\tenvoy_test.yaml\t1 case\n", ""},
		{"bank_test.yaml shop_test.yaml", exitOK, "ok\tbank_test.yaml\t1 case\nok\tshop_test.yaml\t7 cases\n", ""},
		{"wrong_test.yaml bank_test.yaml wrong_test.yaml", exitError, wrongOutput + "ok\tbank_test.yaml\t1 case\n" + wrongOutput, "throttled rules test: a test of the rules failed\n"},
		{"report_test.yaml", exitError, reportOutput, "throttled rules test: a test of the rules failed\n"},
		{"malformed_test.yaml bank_test.yaml", exitError, "ok\tbank_test.yaml\t1 case\n", `malformed_test.yaml:2:16: cases.one[0].chek: unknown key "chek"`},
		{"missing_test.yaml", exitError, "", "missing_test.yaml:2: rules: the rules file cannot be read, write its name relative to the directory of this file: open no.yaml: no such file"},
		{"none_test.yaml", exitError, "", "open none_test.yaml"},
		{"domain_test.yaml", exitError, "--- FAIL: one (domain_test.yaml:3)\n    domain_test.yaml:3: check a=b: unknown domain 'bank': the rules have shop\nFAIL\tdomain_test.yaml\t1 of 1 case\n", "a test of the rules failed"},
		{"two_test.yaml", exitError, "", "two_test.yaml: the rules have several domains: add domain: shop"},
		{"", exitUsage, "", "throttled rules test: wrong number of arguments"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"rules", "test"}, strings.Fields(tt.args)...), nil, &stdout, &stderr)
		if code != tt.code || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
			t.Errorf("throttled rules test %s: exit code %d, want %d\nstdout: %s\nwant %s\nstderr: %s\nwant %s", tt.args, code, tt.code, &stdout, tt.stdout, &stderr, tt.stderr)
		}
	}
}

// TestRulesTest_Imported checks that the windows of imported limits begin at multiples of their length since 1970.
// January 1, 2027 is day 20819.
func TestRulesTest_Imported(t *testing.T) {
	t.Chdir(t.TempDir())
	config, tests := "domain: d\ndescriptors:\n", "rules: rules.yaml\ncases:\n  windows:\n"
	for unit, rest := range map[string]string{"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "6d", "month": "1d", "year": "351d"} {
		config += fmt.Sprintf("- {key: %s, rate_limit: {unit: %s, requests_per_unit: 1}}\n", unit, unit)
		tests += fmt.Sprintf("    - {check: {descriptor: %s}, expect: {decision: admitted, reset_after: %s}}\n    - {check: {descriptor: %s}, expect: {retry_after: %s}}\n", unit, rest, unit, rest)
	}
	var rules, stdout, stderr bytes.Buffer
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("envoy.yaml", config)
	write("rules_test.yaml", tests)
	if code := run([]string{"rules", "import", "--from", "envoy", "envoy.yaml"}, nil, &rules, &stderr); code != exitOK {
		t.Fatalf("import: exit code %d\n%s", code, &stderr)
	}
	write("rules.yaml", rules.String())
	if code := run([]string{"rules", "test", "rules_test.yaml"}, nil, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

const wrongOutput = `--- FAIL: one (wrong_test.yaml:2)
    wrong_test.yaml:2: check path=/report (request 2 of 3): remaining is 0, want 1
FAIL	wrong_test.yaml	1 of 1 case
`

const reportOutput = `--- FAIL: one (report_test.yaml:2)
    report_test.yaml:2: report ip=::1 path=/login: decision is admitted, want refused; remaining is 4, want 99
FAIL	report_test.yaml	1 of 1 case
`

func TestParseCheckReply(t *testing.T) {
	for _, reply := range [][]any{nil, {1, 2}, {int64(0), "1", int64(0), int64(0), int64(0), "", nil, nil}, {int64(0), int64(0), int64(0), int64(0), int64(0), "", nil, nil}} {
		if d, err := parseCheckReply(reply); err != errReply {
			t.Errorf("parseCheckReply(%v) = %+v, %v; want %v", reply, d, err, errReply)
		}
	}
}
