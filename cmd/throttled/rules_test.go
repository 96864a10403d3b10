package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
)

const shopRules = `version: 1
domain: shop
attributes:
  client: {first_of: [api_key, ip]}
default: {allow: 1000/min, per: ip}
limits:
  login:
    when: {path: /login}
    per: ip
    allow: 5 per 15m
  api:
    when: {path: /api/*}
    per: client
    allow: [20/min, 1000/day]
    cost: {path: {/api/export: 10}}
    overrides:
      - {during: {between: "01:00-06:00", zone: Europe/Berlin}, allow: unlimited}
---
version: 1
domain: billing
limits: {all: {allow: 10/s, when: {plan: free}}}
`

const envoyConfig = `domain: d
descriptors:
- key: ip
  value_to_metric: true
  rate_limit: {unit: minute, requests_per_unit: 5}
`

const importedRules = `# Converted from the configuration of Envoy's ratelimit service by: throttled rules import --from envoy
version: 1
domain: d
semantics: envoy
limits:
  ip:
    when:
      descriptor: ip
    per: [ip]
    allow: 5 per minute
    algorithm: fixed
`

// runIn writes shopRules, a malformed file and envoyConfig to a new directory, and runs the program there.
func runIn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"rules.yaml": shopRules,
		"bad.yaml":   strings.Replace(shopRules, "5 per 15m", "5", 1),
		"envoy.yaml": envoyConfig,
	} {
		if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	code = run(args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		args   string
		code   int
		stdout string // all of it
		stderr string // a part of it
	}{
		{"rules check rules.yaml", exitOK, "shop: limits: 2\nbilling: limits: 1\n", ""},
		{"rules check bad.yaml", exitError, "", "bad.yaml:10:12: limits.login.allow: \"5\": no period"},
		{"rules check missing.yaml", exitError, "", "missing.yaml: no such file"},
		{"rules check", exitUsage, "", "throttled rules check: wrong number of arguments: write throttled rules check FILE ...\n"},
		{"rules check bad.yaml rules.yaml missing.yaml", exitError, "rules.yaml: shop: limits: 2\nrules.yaml: billing: limits: 1\n",
			"bad.yaml:10:12: limits.login.allow: \"5\": no period"},
		{"rules check missing.yaml bad.yaml", exitError, "", "missing.yaml: no such file or directory\nthe rules are not valid\nbad.yaml:10:12: "},
		{"rules check --at 2027-01-31T12:00:00Z rules.yaml", exitUsage, "", "throttled rules check: unknown flag --at: it is a flag of throttled rules explain\n"},
		{"rules check rules.yaml --merge", exitUsage, "", "unknown flag --merge: it is a flag of throttled rules import\n"},
		{"rules explain --from envoy rules.yaml shop", exitUsage, "", "unknown flag --from: it is a flag of throttled rules import\n"},
		{"rules test --tests x_test.yaml", exitUsage, "", "unknown flag --tests: it is a flag of throttled rules schema\n"},
		{"rules schema --merge", exitUsage, "", "unknown flag --merge: it is a flag of throttled rules import\n"},
		{"rules explain rules.yaml --at=2027-01-31T12:00:00Z billing", exitOK,
			"all does not apply: plan is absent, want {exact: 'free'}\ndecision: admitted, no limit applies\n", ""},
		{"rules import envoy.yaml --from=envoy", exitOK, importedRules, "note: envoy.yaml:4:20: "},
		{"rules explain rules.yaml", exitUsage, "", "throttled rules explain: wrong number of arguments: write throttled rules explain [--option value ...] FILE DOMAIN"},
		{"rules", exitUsage, "", "throttled rules: a command is missing: check, explain, test, import, schema\n"},
		{"rules schema rules.yaml", exitUsage, "", "throttled rules schema: wrong number of arguments"},
		{"rules schema", exitOK, string(rules.Schema()), ""},
		{"rules import --from envoy envoy.yaml", exitOK, importedRules,
			"note: envoy.yaml:4:20: descriptors[0].value_to_metric: not converted"},
		{"rules import --from envoy envoy.yaml envoy.yaml", exitError, "", `envoy.yaml:1:9: domain: "d" is also the domain of another file`},
		{"rules import --from envoy --merge envoy.yaml envoy.yaml", exitError, "", `the list has another descriptor "ip"`},
		{"rules import --from envoy bad.yaml", exitError, "", "the configuration cannot be converted\nbad.yaml:1:1: version: unknown key"},
		{"rules import --from envoy missing.yaml", exitError, "", "missing.yaml: no such file"},
		{"rules import envoy.yaml", exitUsage, "", "--from is missing: write --from envoy"},
		{"rules import --from nginx envoy.yaml", exitUsage, "", "--from nginx: only envoy is supported"},
		{"rules import --from envoy", exitUsage, "", "throttled rules import: wrong number of arguments"},
		{"rules play rules.yaml", exitUsage, "", `throttled rules: unknown command "play": the commands are check, explain, test, import, schema`},
		{"rules check --no rules.yaml", exitUsage, "", "unknown flag --no\n"},
		{"rules explain --at", exitUsage, "", "throttled rules explain: --at needs a value\n"},
		{"rules import --merge=x envoy.yaml", exitUsage, "", `invalid boolean value "x" for --merge`},
		{"rules explain --at yesterday rules.yaml shop", exitUsage, "", `invalid value "yesterday" for --at: write a time such as 2027-01-31T18:00:00Z`},
		{"rules explain --at= rules.yaml shop", exitUsage, "", `invalid value "" for --at: write a time such as 2027-01-31T18:00:00Z`},
		{"rules explain --at 2027-01-31T12:00:00Z rules.yaml shop path=/api/export api_key=k", exitOK,
			"login does not apply: path is \"/api/export\", want {exact: '/login'}\n" +
				"api applies: 20 per minute and 1000 per day, for api_key \"k\", cost 10; override 1 does not apply: Sun 13:00 in Europe/Berlin is not within during\n" +
				"decision: admitted if 10 units remain of api (per minute, per day); charged to api\n", ""},
		{"rules explain --at 2027-01-31T00:30:00Z rules.yaml shop path=/api/x", exitOK,
			"login does not apply: path is \"/api/x\", want {exact: '/login'}\n" +
				"api applies: unlimited, for all requests without client, by override 1\n" +
				"decision: admitted, unlimited by api\n", ""},
		{"rules explain rules.yaml shop path=/x ip=192.0.2.1", exitOK,
			"login does not apply: path is \"/x\", want {exact: '/login'}\n" +
				"api does not apply: path is \"/x\", want {prefix: '/api/'}\n" +
				"The default applies: 1000 per minute, for ip \"192.0.2.1\"\n" +
				"decision: admitted if 1 unit remains of the default (per minute); charged to the default\n", ""},
		{"rules explain rules.yaml billing", exitOK,
			"all does not apply: plan is absent, want {exact: 'free'}\ndecision: admitted, no limit applies\n", ""},
		{"rules explain rules.yaml bank", exitError, "", `rules.yaml has no domain "bank": its domains are shop, billing`},
		{"rules explain rules.yaml shop path", exitError, "", `"path" is not an attribute: write NAME=VALUE`},
		{"rules explain rules.yaml shop a=1 a=2", exitError, "", `attribute 'a' is repeated`},
	} {
		code, stdout, stderr := runIn(t, strings.Fields(tt.args)...)
		if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
			t.Errorf("throttled %s: exit code %d, want %d\nstdout: %s\nwant %s\nstderr: %s\nwant %s", tt.args, code, tt.code, stdout, tt.stdout, stderr, tt.stderr)
		}
	}
}

// wide returns a text of n bytes, most of them in characters of four bytes, because the YAML parser takes time for each
// character.
func wide(n int) string { return strings.Repeat("a", n%4) + strings.Repeat("𝄞", n/4) }

// TestRules_TooLarge checks that files are refused that a server refuses because of their size.
func TestRules_TooLarge(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"most.yaml":       shopRules + "#" + wide(ruleset.MaxText-len(shopRules)-1),
		"large.yaml":      shopRules + "#" + wide(ruleset.MaxText-len(shopRules)),
		"large_test.yaml": "rules: large.yaml\ncases: {one: [{check: {a: b}}]}",
		"envoy.yaml":      envoyConfig + "  metadata: {a: " + wide(ruleset.MaxText) + "}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"check most.yaml":                "",
		"check large.yaml":               "large.yaml: the rules are larger than 16 MiB; divide them",
		"explain large.yaml shop":        "large.yaml: the rules are larger than 16 MiB",
		"test large_test.yaml":           "large.yaml: the rules are larger than 16 MiB",
		"import --from envoy envoy.yaml": "the result is larger than 16 MiB, which a server refuses",
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"rules"}, strings.Fields(args)...), nil, &stdout, &stderr)
		if (code == exitOK) != (want == "") || !strings.Contains(stderr.String(), want) || want != "" && stdout.Len() > 0 {
			t.Errorf("throttled rules %s: exit code %d, stderr %.200s; want %s", args, code, &stderr, want)
		}
	}
}

func TestRules_Help(t *testing.T) {
	for args, usage := range map[string]string{
		"rules --help": "Usage: throttled rules COMMAND ...\n", "rules check -h": "Usage: throttled rules check FILE ...\n",
		"rules explain --help": "Usage: throttled rules explain [--option value ...] FILE DOMAIN [NAME=VALUE ...]\n",
	} {
		code, stdout, stderr := runIn(t, strings.Fields(args)...)
		if code != exitOK || !strings.HasPrefix(stdout, usage) || strings.Contains(stdout, " \n") || stderr != "" {
			t.Errorf("throttled %s: exit code %d, stdout %q, stderr %q; want exit code 0, and the usage on stdout", args, code, stdout, stderr)
		}
	}
}

// TestRules_ExplainNone uses a value that looks like a part of the output.
func TestRules_ExplainNone(t *testing.T) {
	_, stdout, _ := runIn(t, "rules", "explain", "rules.yaml", "billing", "plan=x applies: y")
	if !strings.HasSuffix(stdout, "\ndecision: admitted, no limit applies\n") {
		t.Errorf("got %q, want a last line that no limit applies", stdout)
	}
}
