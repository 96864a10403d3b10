package envoy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/glob"
	"github.com/throttledhq/throttled/rules"
)

// firstError returns the first error of a conversion as LINE:COLUMN PATH: REASON, or "".
func firstError(t *testing.T, merge bool, sources ...Source) string {
	t.Helper()
	text, notes, err := Convert(sources, merge)
	if err == nil {
		return ""
	}
	errs, ok := err.(rules.Errors)
	if !ok || text != nil || notes != nil {
		t.Fatalf("%q, %v, %v", text, notes, err)
	}
	e := errs[0]
	return fmt.Sprintf("%d:%d %s: %s", e.Line, e.Column, e.Path, e.Reason)
}

// TestConvert_Refused checks that files that the service refuses are refused, at the right place.
func TestConvert_Refused(t *testing.T) {
	texts := readAll(t, "testdata/refused/*.yaml")
	for name, want := range map[string]string{
		"bad_limit_unit":      `6:13 descriptors[0].rate_limit.unit: "foo" is not a unit`,
		"bad_yaml":            "2:1 : not valid YAML: found unexpected end of stream",
		"duplicate_key":       `6:5 descriptors[1]: the list has another descriptor "key1_value1", in line 3`,
		"empty_domain":        "1:1 domain: the domain is missing",
		"empty_key":           "3:5 descriptors[0]: the descriptor has no key",
		"misspelled_key":      `5:5 descriptors[0].ratelimit: unknown key "ratelimit"`,
		"misspelled_key2":     `7:7 descriptors[0].rate_limit.requestsperunit: unknown key "requestsperunit"`,
		"non_map_list":        "3:5 descriptors[0]: the value must be a map",
		"non_string_key":      `1:1 0.25: unknown key "0.25"`,
		"replaces_empty":      "10:15 descriptors[0].descriptors[0].rate_limit.replaces[0]: the name of the replaced limit is missing",
		"replaces_self":       `10:21 descriptors[0].descriptors[0].rate_limit.replaces[0].name: "self" is the name of the limit itself`,
		"unlimited_with_unit": "6:13 descriptors[0].rate_limit.unit: an unlimited rate limit has no unit",
	} {
		if got := firstError(t, false, Source{name, []byte(texts[name+".yaml"])}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestConvert_RefusedText checks the errors of other texts that the service refuses, or that cannot be converted.
func TestConvert_RefusedText(t *testing.T) {
	const head = "domain: d\ndescriptors:\n"
	for text, want := range map[string]string{
		"":                                 "1:1 : the file is empty",
		"[a]":                              "1:1 : the value must be a map",
		"domain: a/b":                      `1:9 domain: "a/b" cannot be the name of a domain`,
		"domain: [a]":                      "1:9 domain: the value must be a text",
		"domain: d\ndomain: e":             `2:1 domain: "domain" is repeated`,
		"domain: d\n---\ndomain: e":        "2:1 : the service reads only the first document",
		"domain: d\n--- '":                 "2:1 : not valid YAML",
		"domain: d\ndescriptors: {key: a}": "2:14 descriptors: the value must be a list",
		head + "- key: a*":                 `3:8 descriptors[0].key: "a*": a key with a wildcard`,
		head + "- key: 1.5":                "3:8 descriptors[0].key: 1.5 is a floating-point number",
		head + "- {key: a, value: 12345678901234567890}":       "3:19 descriptors[0].value: 12345678901234567890 is an integer above 9223372036854775807",
		head + `- key: "a\n"`:                                  `3:8 descriptors[0].key: "a\n" has a control character`,
		head + "- {key: a, share_threshold: true}":             "3:29 descriptors[0].share_threshold: share_threshold needs a value with a wildcard",
		head + "- {key: a, shadow_mode: 'true'}":               `3:25 descriptors[0].shadow_mode: "true" is not a boolean`,
		head + "- {key: a, metadata: [1]}":                     "3:22 descriptors[0].metadata: the value must be a map",
		head + "- {key: a, metadata: {b: .inf}}":               "3:22 descriptors[0].metadata: the metadata has no form in JSON",
		head + "- {key: a, rate_limit: 5}":                     "3:24 descriptors[0].rate_limit: the value must be a map",
		head + "- {key: a, rate_limit: {name: n}}":             "3:24 descriptors[0].rate_limit: the unit is missing",
		head + "- {key: a_b}\n- {key: a, value: b}":            `4:3 descriptors[1]: the list has another descriptor "a_b", in line 3`,
		head + "- &x {key: a, descriptors: [*x]}":              "3:28 descriptors[0].descriptors[0]",
		head + "- {key: a, <<: {value: b}}":                    "3:12 descriptors[0].<<: merge keys are converted only at the beginning",
		head + "- {<<: {<<: {key: b}}, key: c}":                "3:9 descriptors[0]: a map that is merged into another has a merge key",
		limitOf("unit: second, requests_per_unit: -1"):         "3:58 descriptors[0].rate_limit.requests_per_unit: -1 is out of range",
		limitOf("unit: second, requests_per_unit: 4294967296"): "3:58 descriptors[0].rate_limit.requests_per_unit: 4294967296 is out of range",
		limitOf("unit: second, requests_per_unit: '5'"):        `3:58 descriptors[0].rate_limit.requests_per_unit: "5" is not an integer`,
		limitOf("unit: unknown, requests_per_unit: 5"):         `3:31 descriptors[0].rate_limit.unit: "unknown" is not a unit`,
		limitOf("unlimited: true, replaces: n"):                "3:52 descriptors[0].rate_limit.replaces: the value must be a list",
	} {
		if got := firstError(t, false, Source{"x.yaml", []byte(text)}); !strings.HasPrefix(got, want) {
			t.Errorf("%s\n%s, want %s", text, got, want)
		}
	}
}

// limitOf returns a file with one rate limit.
func limitOf(keys string) string {
	return "domain: d\ndescriptors:\n- {key: a, rate_limit: {" + keys + "}}"
}

// TestConvert_Integers checks that integers are texts if the service reads them.
func TestConvert_Integers(t *testing.T) {
	for _, value := range []string{"9223372036854775807", "-9223372036854775808", "0x10", "1_000", "'12345678901234567890'"} {
		if got := firstError(t, false, Source{"x.yaml", []byte("domain: d\ndescriptors: [{key: a, value: " + value + "}]")}); got != "" {
			t.Errorf("%s: %s", value, got)
		}
	}
}

// TestConvert_Merge checks sources with the same domain.
func TestConvert_Merge(t *testing.T) {
	texts := readAll(t, "testdata/*/*.yaml")
	source := func(name string) Source { return Source{name, []byte(texts[name+".yaml"])} }
	one, two := source("merge_domain_key1"), source("merge_domain_key2")
	if got := firstError(t, false, source("basic_config"), source("duplicate_domain")); got != `1:9 domain: "test-domain" is also the domain of another file` {
		t.Error(got)
	}
	if got := firstError(t, true, one, one); got != `5:5 descriptors[0]: the list has another descriptor "key1_value1", in line 5` {
		t.Error(got)
	}
	text, _, err := Convert([]Source{one, two}, true)
	if err != nil || strings.Count(string(text), "domain:") != 1 || strings.Count(string(text), "allow: ") != 2 {
		t.Errorf("%v\n%s", err, text)
	}
	text, _, err = Convert([]Source{one, source("readme_internal")}, false)
	if err != nil || strings.Count(string(text), "\ndomain:") != 2 || !strings.Contains(string(text), "---\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestConvert_Notes checks that each part that is not converted has a note.
func TestConvert_Notes(t *testing.T) {
	const text = `domain: d
unlimited: true
descriptors:
  - key: a
    detailed_metric: yes
    shadow_mode: true
    name: n
  - key: b
    value_to_metric: true
    metadata: {key: value}
    rate_limit: {unit: day, shadow_mode: true}
`
	_, notes, err := Convert([]Source{{"x.yaml", []byte(text)}}, false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range notes {
		got = append(got, fmt.Sprintf("%d %s", n.Line, n.Path))
	}
	want := []string{"2 unlimited", "5 descriptors[0].detailed_metric", "6 descriptors[0].shadow_mode", "7 descriptors[0].name",
		"9 descriptors[1].value_to_metric", "11 descriptors[1].rate_limit", "11 descriptors[1].rate_limit.shadow_mode"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("notes at %q, want %q", got, want)
	}
}

// TestConvert_Text checks the text of a file with most of the keys.
func TestConvert_Text(t *testing.T) {
	const text = `domain: d
descriptors:
  - &a
    key: ip
    value: 10.0.0.1
    quota_mode: true
    metadata: {a: yes, b: [1, 1.5, ~, 2026-01-02, "yes"]}
    rate_limit: {unit: Month, requests_per_unit: 1_0, name: "it's", replaces: [{name: n}, {name: n}]}
  - <<: *a
    value: 10.*
    share_threshold: true
    descriptors:
      - key: "a, %"
        rate_limit: {unit: week, requests_per_unit: 3}
  - key: ip
    rate_limit: {unlimited: on}
`
	const want = `# Converted from the configuration of Envoy's ratelimit service by: throttled rules import --from envoy
version: 1
domain: d
semantics: envoy
limits:
  ip_10.0.0.1:
    when:
      descriptor: ip
      ip: {exact: '10.0.0.1'}
    allow: 10 per 30 days
    algorithm: fixed
    envoy: {name: 'it''s', replaces: [n], quota_mode: true, metadata: '{"a":true,"b":[1,1.5,null,"2026-01-02","yes"]}'}
  ip_10:
    when:
      descriptor: ip
      ip: {prefix: '10.'}
      any: {ip: {not: {exact: '10.0.0.1'}}}
    allow: 10 per 30 days
    algorithm: fixed
    envoy: {name: 'it''s', replaces: [n], quota_mode: true, metadata: '{"a":true,"b":[1,1.5,null,"2026-01-02","yes"]}'}
  ip_10.a:
    when:
      descriptor: {exact: 'ip,a%2C %25'}
      ip: {prefix: '10.'}
      any: {ip: {not: {exact: '10.0.0.1'}}}
    per: [entry.2]
    allow: 3 per 7 days
    algorithm: fixed
  ip:
    when:
      descriptor: ip
      ip: {not: [{exact: '10.0.0.1'}, {prefix: '10.'}]}
    allow: unlimited
`
	got, _, err := Convert([]Source{{"x.yaml", []byte(text)}}, false)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// TestConvert_TooLarge converts wildcards that exclude each other, so that the result grows with the square of their number.
func TestConvert_TooLarge(t *testing.T) {
	text := "domain: d\ndescriptors:\n"
	for i := range 2000 {
		text += fmt.Sprintf("- {key: a, value: '*x%04d*', rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	if _, _, err := Convert([]Source{{"x.yaml", []byte(text)}}, false); !errors.Is(err, errTooLarge) {
		t.Errorf("got the error %v, want %v", err, errTooLarge)
	}
}

// TestNameOf checks that names are valid and readable.
func TestNameOf(t *testing.T) {
	for _, tt := range []struct{ texts, want string }{
		{"path_/p2/*", "path_p2"},
		{"route_/api/v1/*/items method_GET", "route_api-v1-items.method_GET"},
		{"é_*ü user_*", "key.user_"},
		{"é é_x", "key._x"},
		{"a--b_x", "a--b_x"},
		{"host_*." + strings.Repeat("a", 60), "host_." + strings.Repeat("a", 44)},
	} {
		if got := nameOf(strings.Fields(tt.texts)); got != tt.want || !rules.IsName(got) {
			t.Errorf("nameOf(%q) = %q, want %q", tt.texts, got, tt.want)
		}
	}
}

// TestConvert_Large converts configurations with many descriptors. The size of the result must be linear.
func TestConvert_Large(t *testing.T) {
	const n = 5000
	lines := func(format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("- " + strings.ReplaceAll(format, "%", fmt.Sprint(i)) + "\n")
		}
		return b.String()
	}
	const limit = "rate_limit: {unit: day, requests_per_unit: 1}}"
	for name, list := range map[string]string{
		"values":              lines("{key: user, value: u%, "+limit) + "- {key: user}",
		"keys":                lines("{key: user_%, " + limit),
		"nested":              lines("{key: k%, descriptors: [{key: a, " + limit + "]}"),
		"wildcards":           lines("{key: path, value: '/p%/*', " + limit),
		"wildcards, suffixes": lines("{key: host, value: '*.h%.com', " + limit),
		"wildcards of keys":   lines("{key: k%, value: v*, " + limit),
		"values, wildcards":   lines("{key: path, value: '/p%/x', "+limit) + lines("{key: path, value: '/p%/*'}") + "- {key: path}",
	} {
		start := time.Now()
		text, _, err := Convert([]Source{{name, []byte("domain: d\ndescriptors:\n" + list)}}, false)
		if got := strings.Count(string(text), "allow:"); err != nil || got != n || len(text) > 300*n {
			t.Errorf("%s: %d limits in %d bytes, want %d in at most %d: %v", name, got, len(text), n, 300*n, err)
		}
		t.Logf("%s: %v", name, time.Since(start))
	}
}

// TestOverlap compares overlap, and the texts that a textIndex finds, with a search for a text that both patterns match.
func TestOverlap(t *testing.T) {
	texts, patterns := map[string]bool{}, map[string]map[string]bool{} // each pattern with the texts that it matches
	for i := range 1 << 14 {                                           // up to 7 letters
		texts[word(i, "abab")] = true
	}
	for i := range 1 << 8 {
		patterns[word(i, "a*b*")], patterns[word(i, "ab*a")] = map[string]bool{}, map[string]bool{}
	}
	var x textIndex
	for p, matched := range patterns {
		x.add(p)
		for text := range texts {
			if matchesAny([]string{p}, text) {
				matched[text] = true
			}
		}
	}
	for p, matched := range patterns {
		found := x.overlapping(p)
		for q, others := range patterns {
			common := false
			for text := range matched {
				common = common || others[text]
			}
			if got := slices.Contains(found, q); got != common {
				t.Errorf("overlapping(%q) has %q: %v, want %v", p, q, got, common)
			}
		}
	}
}

// TestPairs checks the names of the attributes.
func TestPairs(t *testing.T) {
	for _, tt := range []struct {
		entries []Entry
		want    string
	}{
		{nil, "descriptor "},
		{[]Entry{{"a", "1"}, {"b", ""}}, "descriptor a,b a 1 b "},
		{[]Entry{{"a", "1"}, {"a", "2"}}, "descriptor a,a a 1 entry.2 2"},
		{[]Entry{{"any", "1"}, {"descriptor", "2"}, {"entry.1", "3"}}, "descriptor any,descriptor,entry.1 entry.1 1 entry.2 2 entry.3 3"},
		{[]Entry{{"a,b", "1"}, {"c%\n", "2"}, {strings.Repeat("x", 65), "3"}},
			"descriptor a%2Cb,c%25%0A," + strings.Repeat("x", 65) + " entry.1 1 entry.2 2 entry.3 3"},
	} {
		if got := strings.Join(Pairs(tt.entries), " "); got != tt.want {
			t.Errorf("Pairs(%q) = %q, want %q", tt.entries, got, tt.want)
		}
	}
}

// TestResiduals compares the patterns of the rest of a text with the pattern of the whole text.
func TestResiduals(t *testing.T) {
	for i := range 1 << 12 {
		pattern, prefix, rest := word(i&0xff, "a*b*"), word(i>>8&3, "ab"), word(i>>10&3, "ba")
		want := glob.Match(pattern, prefix+rest)
		if got := matchesAny(residuals(pattern, prefix), rest); got != want {
			t.Errorf("residuals(%q, %q) = %q; match %q: %v, want %v", pattern, prefix, residuals(pattern, prefix), rest, got, want)
		}
	}
}

// word returns a text with a letter for each pair of bits of n.
func word(n int, letters string) string {
	var b strings.Builder
	for ; n > 0; n >>= 2 {
		b.WriteByte(letters[n&3%len(letters)])
	}
	return b.String()
}

// FuzzConvert checks that no text makes Convert panic, that errors have a place, and that the result is valid.
func FuzzConvert(f *testing.F) {
	for _, text := range readAll(f, "testdata/*/*.yaml") {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, err := Convert([]Source{{"fuzz.yaml", text}}, false)
		errs, ok := err.(rules.Errors)
		if err != nil && !ok {
			t.Fatalf("%T: %v", err, err)
		}
		for _, e := range errs {
			if e.Line < 1 || e.Column < 1 || e.Reason == "" {
				t.Errorf("no place: %+v", e)
			}
		}
	})
}
