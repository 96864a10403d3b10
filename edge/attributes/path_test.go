package attributes

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestNormalizePath(t *testing.T) {
	for raw, want := range map[string]string{
		"":                         "/",
		"/":                        "/",
		"/login":                   "/login",
		"/LOGIN":                   "/LOGIN",
		"/a.b/..c/...":             "/a.b/..c/...",
		"*":                        "/*",
		"login":                    "/login",
		"a/../../b":                "/b",
		"/login/":                  "/login",
		"/login//":                 "/login",
		"//login":                  "/login",
		"///a////b":                "/a/b",
		"/./login":                 "/login",
		"/login/.":                 "/login",
		"/login/..":                "/",
		"/x/../login":              "/login",
		"/../../login":             "/login",
		"/a/b/../../../../c":       "/c",
		"/..":                      "/",
		"/.":                       "/",
		"/%2e%2E/login":            "/login",
		"/x/%2e./login":            "/login",
		"/x/.%2e/login":            "/login",
		"/%2e/login":               "/login",
		"/x/..%2Flogin":            "/login",
		"/x/..%2flogin":            "/login",
		"/login%2F":                "/login",
		"%2Flogin":                 "/login",
		"/%2F%2flogin":             "/login",
		"/x/..%5Clogin":            "/login",
		"/x/..%5clogin":            "/login",
		`/x/..\login`:              "/login",
		`\login`:                   "/login",
		`\\login\`:                 "/login",
		`/\/login`:                 "/login",
		"/%6C%6fgin":               "/login",
		"/%6c%6F%67%69%6E":         "/login",
		"/login;jsessionid=1":      "/login",
		"/login;a=1;b=2/":          "/login",
		"/a;p/b;q/c":               "/a/b/c",
		"/;a/login":                "/login",
		"/;/;/login":               "/login",
		"/x/..;/login":             "/login",
		"/x/..;a=b/login":          "/login",
		"/.;/login":                "/login",
		"/login%3Bx":               "/login",
		"/x/..%3b/login":           "/login",
		"/%256Cogin":               "/%6Cogin",
		"/%252e%252e/login":        "/%2e%2e/login",
		"/x%252Flogin":             "/x%2Flogin",
		"/100%25":                  "/100%",
		"//x/..%2Flogin/;a?b":      "/login",
		"/login?x=1":               "/login",
		"/login?":                  "/login",
		"/login?a=/../b":           "/login",
		"/login#f":                 "/login",
		"/login#f?x":               "/login",
		"/login?x#f":               "/login",
		"?x":                       "/",
		"/a%3Fb":                   "/a?b",
		"/a%23b":                   "/a#b",
		"http://h/login":           "/login",
		"http://h":                 "/",
		"http://h?x":               "/",
		"http://h#x":               "/",
		"http://h:80/x/../login?q": "/login",
		"HTTPS://user:pw@h/login":  "/login",
		`http://h\login`:           "/login",
		"http:///login":            "/login",
		"http:/login":              "/http:/login",
		"://h/login":               "/:/h/login",
		"/http://h/login":          "/http:/h/login",
		"/caf%C3%A9":               "/café",
		"/café":                    "/café",
		"/%c0%afetc":               "/\xc0\xafetc",
		"/a+b":                     "/a+b",
		"/a%20b":                   "/a b",
		"/a%0d%0ab":                "/a\r\nb",
		"/" + strings.Repeat("./", 2000) + "login": "/login",
		"/" + strings.Repeat("a", MaxPath-1):       "/" + strings.Repeat("a", MaxPath-1),
		"/login?" + strings.Repeat("a", 100_000):   "/login",
	} {
		if got, err := NormalizePath(raw); got != want || err != nil {
			t.Errorf("NormalizePath(%.60q): %.60q, %v; want %.60q", raw, got, err, want)
		}
	}
}

func TestNormalizePath_Errors(t *testing.T) {
	for raw, want := range map[string]string{
		"/%":                               `invalid request: the path has the invalid escape "%"; encode a percent sign as %25`,
		"/a%2":                             `invalid request: the path has the invalid escape "%2"; encode a percent sign as %25`,
		"/%zz":                             `invalid request: the path has the invalid escape "%zz"; encode a percent sign as %25`,
		"/%2g/a":                           `invalid request: the path has the invalid escape "%2g"; encode a percent sign as %25`,
		"/%u002e":                          `invalid request: the path has the invalid escape "%u0"; encode a percent sign as %25`,
		"/%%32%65":                         `invalid request: the path has the invalid escape "%%3"; encode a percent sign as %25`,
		"/a%?x":                            `invalid request: the path has the invalid escape "%"; encode a percent sign as %25`,
		"/login%00":                        "invalid request: the path has a NUL byte",
		"/login\x00":                       "invalid request: the path has a NUL byte",
		"/login;\x00":                      "invalid request: the path has a NUL byte",
		"/" + strings.Repeat("a", MaxPath): "invalid request: the path has 4097 bytes; at most 4096 are allowed",
	} {
		got, err := NormalizePath(raw)
		if !errors.Is(err, ErrRequest) || err.Error() != want {
			t.Errorf("NormalizePath(%.60q): %.60q, error %v; want %s", raw, got, err, want)
		}
	}
}

// escaper encodes the characters of a normal path that have a meaning in a request target.
var escaper = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23")

// checkNormal checks properties of each normal path.
func checkNormal(t *testing.T, raw, path string) {
	t.Helper()
	if path == "" || path[0] != '/' || path != "/" && strings.HasSuffix(path, "/") {
		t.Errorf("NormalizePath(%q): %q, want a slash at the start only", raw, path)
	}
	if segments := path + "/"; strings.ContainsAny(path, ";\\\x00") || strings.Contains(path, "//") || strings.Contains(segments, "/./") || strings.Contains(segments, "/../") {
		t.Errorf("NormalizePath(%q): %q, which is not normal", raw, path)
	}
	if again, err := NormalizePath(escaper.Replace(path)); err != nil || again != path {
		if len(escaper.Replace(path)) <= MaxPath {
			t.Errorf("NormalizePath(%q): %q; normalized again %q, %v", raw, path, again, err)
		}
	}
}

// Normalization changes no normal path, and the result does not depend on the spelling of characters.
func TestNormalizePath_Properties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"/", "/", "/", ".", ".", "..", "a", "login", ";", "%2e", "%2F", "%5C", `\`, "%25", "%3b", "%41", "?", "#", "é", "://", "%3F"}
	for range 200_000 {
		var raw strings.Builder
		for range random.IntN(12) {
			raw.WriteString(parts[random.IntN(len(parts))])
		}
		path, err := NormalizePath(raw.String())
		if err != nil {
			t.Fatalf("NormalizePath(%q): %v", raw.String(), err)
		}
		checkNormal(t, raw.String(), path)
		encoded := encodeSome(random, pathOf(raw.String()))
		if got, err := NormalizePath(encoded); err != nil || got != path {
			t.Fatalf("NormalizePath(%q): %q, %v; want %q, as for %q", encoded, got, err, path, raw.String())
		}
	}
}

// encodeSome returns another spelling of a path: it encodes random bytes that are not part of an encoding.
func encodeSome(random *rand.Rand, path string) string {
	const hex = "0123456789abcdefABCDEF"
	var out strings.Builder
	out.WriteByte('/')
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '%':
			out.WriteString(path[i : i+3])
			i += 2
		case random.IntN(2) == 0:
			out.Write([]byte{'%', hex[path[i]>>4], hex[path[i]&15]})
		default:
			out.WriteByte(path[i])
		}
	}
	return out.String()
}

func TestNormalizePath_DoesNotAllocate(t *testing.T) {
	for _, path := range []string{"/", "/api/v1/orders/1234", "/api/v1/orders?page=2"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = NormalizePath(path) }); n > 0 {
			t.Errorf("%q: %v allocations, want 0", path, n)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, seed := range []string{"/login", "//a/./b/../c/", "/%2e%2e%2f%5c", "/a;b/..;/c", "http://h/x?y#z", "/%25%3F%23", "*", "/%", `\..\`, "/\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		path, err := NormalizePath(raw)
		if err == nil {
			checkNormal(t, raw, path)
		} else if !errors.Is(err, ErrRequest) || path != "" {
			t.Errorf("NormalizePath(%q): %q, %v", raw, path, err)
		}
	})
}

func BenchmarkNormalizePath(b *testing.B) {
	for name, path := range map[string]string{"normal": "/api/v1/orders/1234", "query": "/api/v1/orders?page=2", "encoded": "/api/v1/./orders//caf%C3%A9;v=1"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NormalizePath(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
