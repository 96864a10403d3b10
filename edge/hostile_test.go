package edge

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile is bytes that a client must not send. The server answers with one of the statuses, separated by spaces, or, if
// closes is set, with nothing. No other response follows, so the bytes contain no request that a gateway has not seen.
type hostile struct {
	name, bytes string
	statuses    string
	closes      bool
}

const (
	hostLine  = "Host: localhost\r\n"
	jsonLine  = "Content-Type: application/json\r\n"
	caddyHead = "GET /check/caddy/shop HTTP/1.1\r\nHost: a\r\n"
	caddyRest = "X-Forwarded-Method: GET\r\nX-Forwarded-Host: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	smuggled  = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// get returns a request with further header lines.
func get(target, lines string) string {
	return "GET " + target + " HTTP/1.1\r\n" + hostLine + lines + "\r\n"
}

// posted returns a request with a body that its header lines describe.
func posted(lines, content string) string {
	return "POST /v1/check HTTP/1.1\r\n" + hostLine + jsonLine + lines + "\r\n" + content
}

// framing are requests whose length is ambiguous or wrong.
func framing() []hostile {
	const chunk = "Transfer-Encoding: chunked\r\n"
	return []hostile{
		{"CL and TE", posted("Content-Length: 2\r\n"+chunk, "2\r\n{}\r\n0\r\n\r\n"+smuggled), "200 400", false},
		{"TE and CL", posted(chunk+"Content-Length: 50\r\n", "0\r\n\r\n"+smuggled), "400", false},
		{"TE and CL on a check", caddyHead + chunk + "Content-Length: 3\r\nX-Forwarded-Uri: /free\r\n" + caddyRest + "0\r\n\r\n" + smuggled, "200", false},
		{"two CL that differ", posted("Content-Length: 2\r\nContent-Length: 40\r\n", "{}"+smuggled), "400", false},
		{"CL list", posted("Content-Length: 2, 40\r\n", "{}"+smuggled), "400", false},
		{"CL plus", posted("Content-Length: +2\r\n", "{}"+smuggled), "400", false},
		{"CL minus", posted("Content-Length: -2\r\n", "{}"+smuggled), "400", false},
		{"CL hexadecimal", posted("Content-Length: 0x2\r\n", "{}"+smuggled), "400", false},
		{"CL with a space inside", posted("Content-Length: 2 0\r\n", "{}"+smuggled), "400", false},
		{"CL out of range", posted("Content-Length: 99999999999999999999\r\n", "{}"), "400", false},
		{"CL empty", posted("Content-Length: \r\n", "{}"), "400", false},
		{"CL fraction", posted("Content-Length: 2.0\r\n", "{}"), "400", false},
		{"CL above the limit", posted("Content-Length: 65537\r\n", "{}"), "413", false},
		{"CL huge", posted("Content-Length: 9223372036854775807\r\n", "{}"), "413", false},
		{"CL longer than the body", posted("Content-Length: 10\r\n", "{}"), "400", false},
		{"CL with a tab before the colon", posted("Content-Length\t: 2\r\n", "{}"), "400", false},
		{"CL with a space before the colon", posted("Content-Length : 2\r\n", "{}"), "400", false},
		{"TE twice", posted(chunk+chunk, "2\r\n{}\r\n0\r\n\r\n"), "501 400", false},
		{"TE list", posted("Transfer-Encoding: chunked, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), "501 400", false},
		{"TE gzip", posted("Transfer-Encoding: gzip, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), "501 400", false},
		{"TE identity", posted("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", "{}"), "501 400", false},
		{"TE xchunked", posted("Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n", "{}"), "501 400", false},
		{"TE with a space before the colon", posted("Transfer-Encoding : chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"TE with a vertical tab", posted("Transfer-Encoding: \x0bchunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), "400 501", false},
		{"TE with obs-fold", posted("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"+smuggled), "400 501", false},
		{"TE in HTTP/1.0", "POST /v1/check HTTP/1.0\r\n" + hostLine + jsonLine + chunk + "\r\n0\r\n\r\n" + smuggled, "400", false},
		{"chunk size not hexadecimal", posted(chunk, "zz\r\n{}\r\n0\r\n\r\n"+smuggled), "400", false},
		{"chunk size negative", posted(chunk, "-2\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"chunk size plus", posted(chunk, "+2\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"chunk size with 0x", posted(chunk, "0x2\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"chunk size overflows", posted(chunk, "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"chunk size empty", posted(chunk, "\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"chunk without its end", posted(chunk, "2\r\n{}0\r\n\r\n"), "400", false},
		{"chunk with a bare LF", posted(chunk, "2\n{}\r\n0\r\n\r\n"+smuggled), "400", false},
		{"chunk too short", posted(chunk, "5\r\n{}\r\n0\r\n\r\n"+smuggled), "400", false},
		{"chunks without an end", posted(chunk, "2\r\n{}\r\n"), "400", false},
		{"chunk extension of 10 KB", posted(chunk, "2;"+strings.Repeat("a", 10000)+"\r\n{}\r\n0\r\n\r\n"), "400", false},
		{"chunk extensions, many", posted(chunk, strings.Repeat("1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n \r\n", 2000)+"0\r\n\r\n"), "400", false},
		{"chunks above the limit", posted(chunk, strings.Repeat("4000\r\n"+strings.Repeat(" ", 0x4000)+"\r\n", 5)+"0\r\n\r\n"), "413", false},
		{"trailer with a framing header", posted("Trailer: Content-Length\r\n"+chunk, "2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n"), "400 200", false},
		{"body of a GET", get("/healthz", "Content-Length: 4\r\n") + "evil", "200", false},
		{"expectation unknown", posted("Expect: magic\r\nContent-Length: 2\r\n", "{}"), "417", false},
	}
}

// lines are requests whose request line or header lines are malformed.
func lines() []hostile {
	all := []hostile{
		{"HTTP/0.9", "GET /\r\n\r\n", "400", false},
		{"HTTP/0.9 without an end", "GET /healthz\n", "400", false},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "505", false},
		{"HTTP/2", "GET /healthz HTTP/2.0\r\n" + hostLine + "\r\n", "505", false},
		{"HTTP/3", "GET /healthz HTTP/3.0\r\n" + hostLine + "\r\n", "505", false},
		{"HTTP/1.2", "GET /healthz HTTP/1.2\r\n" + hostLine + "\r\n", "400 505 200", false},
		{"HTTP/1", "GET /healthz HTTP/1\r\n" + hostLine + "\r\n", "400", false},
		{"HTTP/11.1", "GET /healthz HTTP/11.1\r\n" + hostLine + "\r\n", "400 505", false},
		{"lower-case version", "GET /healthz http/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"no version", "GET /healthz \r\n" + hostLine + "\r\n", "400", false},
		{"version with a tail", "GET /healthz HTTP/1.1x\r\n" + hostLine + "\r\n", "400", false},
		{"two spaces", "GET  /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"space in the target", "GET /heal thz HTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"tab in the request line", "GET\t/healthz\tHTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"space before the method", " GET /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"no method", " /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"method with parentheses", "G(T /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"method with NUL", "G\x00T /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "400", false},
		{"method of 10 KB", strings.Repeat("G", 10000) + " /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "405", false},
		{"method in lower case", "get /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "405", false},
		{"only line ends", strings.Repeat("\r\n", 100), "400", true},
		{"only NUL", strings.Repeat("\x00", 100), "400", true},
		{"random bytes", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n", "400", false},
		{"Redis", "*1\r\n$4\r\nPING\r\n\r\n", "400", false},
		{"Redis inline", "PING\r\n\r\n", "400", false},
		{"SSH", "SSH-2.0-OpenSSH_9.6\r\n\r\n", "400", false},
		{"empty", "", "", true},
		{"half a request line", "GET /heal", "400", true},
		{"half the headers", "GET /healthz HTTP/1.1\r\nHost: loc", "400", true},
		{"TRACE", "TRACE /healthz HTTP/1.1\r\n" + hostLine + "\r\n", "405", false},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" + hostLine + "\r\n", "404", false},
		{"CONNECT authority", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", "404", false},
		{"CONNECT to a check", "CONNECT /check/caddy/shop HTTP/1.1\r\nHost: a\r\n\r\n", "400", false},
		{"absolute form", get("http://localhost/healthz", ""), "404", false},
		{"absolute form of another host", get("http://evil.example/healthz", ""), "421", false},
		{"absolute form of a check", get("http://localhost/check/caddy/shop", ""), "404", false},
		{"authority form", get("localhost:80", ""), "404", false},
		{"asterisk", get("*", ""), "400 404", false},
		{"relative target", get("healthz", ""), "400", false},
		{"fragment", get("/healthz#a", ""), "404", false},
		{"NUL in the target", get("/health\x00z", ""), "400", false},
		{"encoded NUL", get("/healthz%00", ""), "404", false},
		{"invalid escape", get("/healthz%zz", ""), "400", false},
		{"incomplete escape", get("/healthz%", ""), "400", false},
		{"control byte in the target", get("/health\x01z", ""), "400", false},
		{"DEL in the target", get("/health\x7fz", ""), "400", false},
		{"bytes above ASCII in the target", get("/health\xff\xfez", ""), "404", false},
		{"dot segments", get("/v1/../healthz", ""), "404", false},
		{"encoded slash", get("/v1%2Frules", ""), "404", false},
		{"double slash", get("//healthz", ""), "404", false},
		{"backslash", get("/v1\\rules", ""), "404", false},
		{"parameters", get("/healthz;a=b", ""), "404", false},
		{"target of 60 KB", get("/"+strings.Repeat("a", 60000), ""), "404", false},
		{"target of 100 KB", get("/"+strings.Repeat("a", 100000), ""), "431", true},
		{"no Host", "GET /healthz HTTP/1.1\r\n\r\n", "400", false},
		{"two Hosts", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400", false},
		{"Host twice", "GET /healthz HTTP/1.1\r\n" + hostLine + hostLine + "\r\n", "400", false},
		{"empty Host", "GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", "421", false},
		{"HTTP/1.0 without Host", "GET /healthz HTTP/1.0\r\n\r\n", "200", false},
		{"header without a colon", get("/healthz", "X-A\r\n"), "400", false},
		{"header without a name", get("/healthz", ": a\r\n"), "400", false},
		{"header that begins with a space", "GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n", "400", false},
		{"header with a space in its name", get("/healthz", "X A: b\r\n"), "400", false},
		{"header with NUL", get("/healthz", "X-A: a\x00b\r\n"), "400", false},
		{"header name with NUL", get("/healthz", "X\x00A: b\r\n"), "400", false},
		{"header with CR", get("/healthz", "X-A: a\rb\r\n"), "400", false},
		{"header with a control byte", get("/healthz", "X-A: \x01\r\n"), "400", false},
		{"header name above ASCII", get("/healthz", "X-\xff: a\r\n"), "400", false},
		{"header of 32 KB, which nginx accepts by default", get("/healthz", "X-A: "+strings.Repeat("a", 32<<10)+"\r\n"), "200", false},
		{"header of 100 KB", get("/healthz", "X-A: "+strings.Repeat("a", 100000)+"\r\n"), "431", true},
		{"101 headers", get("/healthz", strings.Repeat("a:b\r\n", 101)), "431", true},
		{"5,000 headers", get("/healthz", strings.Repeat("X-Aaaaaaaaa: aaaaaaaaaaaaaaaa\r\n", 5000)), "431", true},
		{"endless header line", "GET /healthz HTTP/1.1\r\nX-A: " + strings.Repeat("a", 1<<20), "431", true},
		{"endless request line", "GET /" + strings.Repeat("a", 1<<20), "431", true},
		{"upgrade to h2c", get("/healthz", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"), "200", false},
		{"upgrade to a web socket", get("/healthz", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), "200", false},
		{"Connection names Host", get("/healthz", "Connection: close, Host\r\n"), "200", false},
	}
	for _, c := range []string{"/", "\\", "@", "?", "#", " ", "\t", "\"", "<", "a b", "%zz", "\xff"} {
		all = append(all, hostile{fmt.Sprintf("Host with %q", c), "GET /v1/rules HTTP/1.1\r\nHost: evil" + c + "localhost\r\n\r\n", "400 421", false})
	}
	return all
}

// tricks are check requests with paths and headers by which a client could avoid a limit.
func tricks() []hostile {
	var all []hostile
	for _, path := range []string{
		"/%", "/%0", "/%zz", "/%00", "/login%00", "/%u0041", "/" + strings.Repeat("a", 5000), "/a\x01/%zz",
	} {
		all = append(all, hostile{fmt.Sprintf("path %.20q", path), caddyHead + "X-Forwarded-Uri: " + path + "\r\n" + caddyRest, "400", false})
	}
	for _, line := range []string{
		"X-Forwarded-Uri: /a\r\nX-Forwarded-Uri: /b\r\n", "X-Forwarded-Uri: /a\r\nX-Forwarded-Method: PUT\r\n", "X-Forwarded-Uri: /a\r\nX-Forwarded-Host: b\r\n",
		"", "X-Original-Uri: /a\r\n", "X_Forwarded_Uri: /a\r\n", "X-Forwarded-Uri : /a\r\n", "X-Forwarded-Uri\x00: /a\r\n",
	} {
		all = append(all, hostile{fmt.Sprintf("lines %.60q", line), caddyHead + line + caddyRest, "400", false})
	}
	for _, host := range []string{"a/b", "a b", "a@b", "a\\b", "a?b", "a#b", "a,b", strings.Repeat("a", 300)} {
		all = append(all, hostile{fmt.Sprintf("forwarded host %.20q", host),
			"GET /check/traefik/shop HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /a\r\nX-Forwarded-For: ::1\r\nX-Forwarded-Host: " + host + "\r\n\r\n", "400", false})
	}
	for _, domain := range []string{"%73hop", "shop%00", "shop\\", "SHOP", "sh*p", "..", "shop;a", strings.Repeat("a", 3000)} {
		all = append(all, hostile{fmt.Sprintf("domain %.20q", domain),
			"GET /check/caddy/" + domain + " HTTP/1.1\r\nHost: a\r\nX-Forwarded-Uri: /a\r\n" + caddyRest, "503", false})
	}
	return all
}

// bodies are malformed bodies.
func bodies() []hostile {
	var all []hostile
	for _, content := range []string{
		"", " ", "{", "}", "[", "{]", "nul", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{,}", "{\"a\" 1}", "{a:1}", "{'a':1}", "\x00", "\xef\xbb\xbf{}", "{}\x00", "{}{}",
		"{\"domain\":\"\x01\"}", "{\"domain\":\"\\x\"}", "{\"domain\":\"\\u12\"}", "{\"cost\":01}", "{\"cost\":+1}", "{\"cost\":NaN}", "{\"cost\":1e999}", "{\"cost\":-0.5}",
		"{\"cost\":" + strings.Repeat("9", 10000) + "}", strings.Repeat("[", 60000), strings.Repeat("{\"a\":", 10000), "{\"attributes\":" + strings.Repeat("[", 30000),
		"{\"__proto__\":{}}", "{\"\":1}", "// comment\n{}", "<xml/>", "domain=shop",
	} {
		all = append(all, hostile{fmt.Sprintf("body %.30q", content), posted(fmt.Sprintf("Content-Length: %d\r\n", len(content)), content), "400", false})
	}
	return all
}

var statusLine = regexp.MustCompile(`(?m)^HTTP/1\.[01] (\d\d\d)`)

// Hostile bytes are answered with a clear error, or their connection is closed. Other clients are served.
func TestHostile(t *testing.T) {
	l := start(t, nil)
	other := l.dial()
	in := bufio.NewReader(other)
	all := slices.Concat(framing(), lines(), tricks(), bodies())
	if len(all) < 150 {
		t.Errorf("%d cases, want at least 150", len(all))
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			got := l.raw(c.bytes)
			found := statusLine.FindAllStringSubmatch(got, -1)
			switch {
			case len(found) == 0 && !c.closes:
				t.Errorf("closed without a response: %.200q, want %s", got, c.statuses)
			case len(found) > 1:
				t.Errorf("%d responses, want 1: %.600q", len(found), got)
			case len(found) == 1 && !slices.Contains(strings.Fields(c.statuses), found[0][1]):
				t.Errorf("response %.600q, want %s", got, c.statuses)
			}
			if r := roundTrip(t, other, in, health); r.StatusCode != 200 {
				t.Errorf("another client: %d", r.StatusCode)
			}
		})
	}
	if strings.Contains(l.log.String(), "panic") {
		t.Errorf("log %s", l.log.String())
	}
}

// Clients that send slowly are closed after the time limits; other clients are served meanwhile.
func TestSlow(t *testing.T) {
	l := start(t, nil, func(s *Server) {
		s.http.ReadHeaderTimeout, s.http.ReadTimeout = 100*time.Millisecond, 200*time.Millisecond
	})
	for _, c := range []struct{ name, bytes, want string }{
		{"nothing", "", ""},
		{"request line", "GET /hea", ""},
		{"headers", "GET /healthz HTTP/1.1\r\nHost: a\r\nX-", ""},
		{"body", posted("Content-Length: 10\r\n", "{"), "408 Request Timeout"},
		{"chunks", posted("Transfer-Encoding: chunked\r\n", "2\r\n{"), "408 Request Timeout"},
	} {
		slow := l.dial()
		if _, err := io.WriteString(slow, c.bytes); err != nil {
			t.Fatal(err)
		}
		if r := l.do("GET", "/healthz", ""); r.StatusCode != 200 {
			t.Errorf("another client: %d", r.StatusCode)
		}
		if all, _ := io.ReadAll(slow); !strings.Contains(string(all), c.want) || c.want == "" && len(all) > 0 && !strings.Contains(string(all), " 40") {
			t.Errorf("%s: %q, want %q", c.name, all, c.want)
		}
	}
}

// FuzzRequest sends bytes on a connection. The server must answer the next client.
func FuzzRequest(f *testing.F) {
	for _, c := range slices.Concat(framing(), lines(), tricks(), bodies()) {
		if len(c.bytes) < 2000 {
			f.Add(c.bytes)
		}
	}
	l := start(f, nil)
	f.Fuzz(func(t *testing.T, bytes string) {
		l.tb = t
		l.raw(bytes)
		if got := l.raw(get("/healthz", "Connection: close\r\n")); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("after %q: %q", bytes, got)
		}
		if strings.Contains(l.log.String(), "panic") {
			t.Errorf("%q: log %s", bytes, l.log.String())
		}
	})
}
