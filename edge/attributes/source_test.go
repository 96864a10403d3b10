package attributes

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseSources(t *testing.T) {
	s, err := ParseSources([]string{"user=verified:header:x-user", "key=header:X-API-Key", "session=cookie:sid", "sid=verified:cookie:sid",
		"plan=jwt:x-jwt-payload:https://example.com/plan", "team=verified:jwt:Authorization:org.team"})
	if err != nil {
		t.Fatal(err)
	}
	want := []source{
		{"user", fromHeader, true, "X-User", ""},
		{"unverified.key", fromHeader, false, "X-Api-Key", ""},
		{"unverified.session", fromCookie, false, "Cookie", "sid"},
		{"sid", fromCookie, true, "Cookie", "sid"},
		{"plan", fromToken, true, "X-Jwt-Payload", "https://example.com/plan"},
		{"team", fromToken, true, "Authorization", "org.team"},
	}
	if !reflect.DeepEqual(s.list, want) {
		t.Errorf("sources\n%+v, want\n%+v", s.list, want)
	}
}

// The same name can be declared with and without verification: these are two attributes.
func TestParseSources_SameName(t *testing.T) {
	if _, err := ParseSources([]string{"user=header:X-User", "user=verified:header:X-User"}); err != nil {
		t.Error(err)
	}
}

func TestParseSources_Errors(t *testing.T) {
	long := strings.Repeat("a", 54)
	for word, want := range map[string]string{
		"":                            `"" has no source; write NAME=SOURCE, such as user=verified:header:X-User`,
		"user":                        `"user" has no source; write NAME=SOURCE, such as user=verified:header:X-User`,
		"user=":                       `"user=": "" is not a kind of source; write header:NAME, cookie:NAME, jwt:HEADER:CLAIM or metadata:NAMESPACE:PATH`,
		"user=heder:X-User":           `"user=heder:X-User": "heder" is not a kind of source; did you mean "header:"?`,
		"user=verfied:header:X-User":  `"user=verfied:header:X-User": "verfied" is not a kind of source; did you mean "verified:"?`,
		"user=X-User":                 `"user=X-User": "X-User" is not a kind of source; write header:NAME, cookie:NAME, jwt:HEADER:CLAIM or metadata:NAMESPACE:PATH`,
		"user=Header:X-User":          `"user=Header:X-User": "Header" is not a kind of source; did you mean "header:"?`,
		"user=header:":                `"user=header:": "" is not the name of a header; write a name such as X-User`,
		"user=header:X User":          `"user=header:X User": "X User" is not the name of a header; write a name such as X-User`,
		"user=header:X-User:y":        `"user=header:X-User:y": "X-User:y" is not the name of a header; write a name such as X-User`,
		"user=cookie:":                `"user=cookie:": "" is not the name of a cookie; write cookie:NAME, such as cookie:session`,
		"user=cookie:a;b":             `"user=cookie:a;b": "a;b" is not the name of a cookie; write cookie:NAME, such as cookie:session`,
		"user=jwt:X-Jwt":              `"user=jwt:X-Jwt": "jwt:X-Jwt" has no claim; write jwt:HEADER:CLAIM, such as jwt:X-Jwt-Payload:sub`,
		"user=jwt:X-Jwt:":             `"user=jwt:X-Jwt:": "jwt:X-Jwt:" has no claim; write jwt:HEADER:CLAIM, such as jwt:X-Jwt-Payload:sub`,
		"user=jwt::sub":               `"user=jwt::sub": "" is not the name of a header; write a name such as X-User`,
		"=header:X-User":              `"=header:X-User": "" is not a name; a name has 1 to 53 letters, digits, "-", "_" or "."`,
		"us er=verified:header:X":     `"us er=verified:header:X": "us er" is not a name; a name has 1 to 64 letters, digits, "-", "_" or "."`,
		"ü=header:X":                  `"ü=header:X": "ü" is not a name; a name has 1 to 53 letters, digits, "-", "_" or "."`,
		long + "=header:X":            `"` + long + `=header:X": "` + long + `" is not a name; a name has 1 to 53 letters, digits, "-", "_" or "."`,
		"ip=verified:header:X":        `"ip=verified:header:X": each request has an attribute ip; choose another name`,
		"path=header:X":               `"path=header:X": each request has an attribute path; choose another name`,
		"unverified.a=header:X":       `"unverified.a=header:X": the prefix "unverified." is added to the names of sources that are not verified; remove it`,
		"unverified.a=jwt:X:sub":      `"unverified.a=jwt:X:sub": the prefix "unverified." is added to the names of sources that are not verified; remove it`,
		"twice=verified:header:X-Two": `"twice=verified:header:X-Two": the attribute twice is declared twice; remove one of the declarations`,
		strings.Repeat("x", 90):       `"` + strings.Repeat("x", 80) + `..." has no source; write NAME=SOURCE, such as user=verified:header:X-User`,
	} {
		if _, err := ParseSources([]string{"twice=jwt:X-Jwt:sub", word}); err == nil || err.Error() != want {
			t.Errorf("ParseSources(%q)\nerror %v,\nwant  %s", word, err, want)
		}
	}
}

func FuzzParseSources(f *testing.F) {
	for _, seed := range []string{"user=verified:header:X-User", "plan=jwt:X-Jwt:a.b", "sid=cookie:sid", "a=b=c", "=", "verified:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, word string) {
		s, err := ParseSources([]string{word})
		if err != nil {
			return
		}
		one := s.list[0]
		if len(one.attribute) > maxName || one.header == "" || strings.HasPrefix(one.attribute, Unverified) == one.verified {
			t.Errorf("ParseSources(%q): %+v", word, one)
		}
	})
}
