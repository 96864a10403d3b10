package recipes

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// logins is the number of logins that the rules of all examples allow in 15 minutes.
const logins = 5

// testRecipe tests an example. Its limits are tested with a long deadline, which a busy machine cannot exceed, and failures
// of the limiter with the deadline of the recipe.
func testRecipe(t *testing.T, r recipe) {
	rules, err := filepath.Abs(example(r.folder + "/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "rules", "check", rules).CombinedOutput(); err != nil {
		t.Fatalf("rules check: %v\n%s", err, out)
	}
	l, limiter := prepareRecipe(t, r), startServer(t, rules)
	t.Run("limits", func(t *testing.T) {
		a := l.start(t, limiter, patience)
		t.Run("headers and refusal", a.testHeaders)
		t.Run("exact", a.testExact)
		t.Run("forged address", a.testForgedAddress)
		t.Run("IPv6", a.testIPv6)
		t.Run("spellings of the path", a.testSpellings)
		t.Run("users", func(t *testing.T) { a.testUsers(t, limiter) })
	})
	t.Run("failures", func(t *testing.T) {
		a := l.start(t, limiter, 0)
		t.Run("limiter paused", func(t *testing.T) { a.testPaused(t, limiter) })
		t.Run("limiter killed", func(t *testing.T) { a.testKilled(t, limiter) })
	})
}

func (a *app) testHeaders(t *testing.T) {
	const ip = "203.0.113.1"
	for n := logins - 1; n >= 0; n-- {
		r := a.send(t, login(ip))
		if r.status != 200 || !strings.Contains(strings.ReplaceAll(r.body, " ", ""), `"ok":true`) {
			t.Errorf("status %d, body %s; want 200 and the body of the application", r.status, r.body)
		}
		checkHeader(t, r, "RateLimit-Policy", `"login";q=5;w=900, "api";q=100;w=60`)
		checkHeader(t, r, "X-RateLimit-Limit", strconv.Itoa(logins))
		checkHeader(t, r, "X-RateLimit-Remaining", strconv.Itoa(n))
		reset := number(t, r, "X-RateLimit-Reset")
		checkHeader(t, r, "RateLimit", fmt.Sprintf(`"login";r=%d;t=%d`, n, reset))
		checkHeader(t, r, "Retry-After", "")
	}
	r := a.send(t, login(ip))
	if r.status != 429 {
		t.Fatalf("status %d after %d logins, want 429", r.status, logins)
	}
	wait := number(t, r, "Retry-After")
	checkHeader(t, r, "RateLimit-Policy", `"login";q=5;w=900, "api";q=100;w=60`)
	checkHeader(t, r, "RateLimit", fmt.Sprintf(`"login";r=0;t=%d`, wait))
	checkHeader(t, r, "X-RateLimit-Remaining", "0")
	if media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";"); media != "application/problem+json" {
		t.Errorf("Content-Type is %q, want application/problem+json", media)
	}
	if got := r.header.Get("Cache-Control"); !strings.Contains(got, "no-store") {
		t.Errorf("Cache-Control is %q, want no-store", got)
	}
	checkProblem(t, r, wait)
}

// checkProblem checks the body of a refusal.
func checkProblem(t *testing.T, r response, wait int) {
	t.Helper()
	var body struct {
		Type, Title, Error, Message string
		Status                      int
		RetryAfter                  int      `json:"retry_after_seconds"`
		Violated                    []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatalf("body %s: %v", r.body, err)
	}
	if body.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || body.Title != "Quota exceeded" ||
		body.Error != "rate_limited" || body.Message == "" || body.Status != 429 {
		t.Errorf("unexpected problem: %s", r.body)
	}
	if body.RetryAfter != wait || !slices.Equal(body.Violated, []string{"login"}) {
		t.Errorf("the problem has retry_after_seconds %d and violated-policies %v, want %d and [login]", body.RetryAfter, body.Violated, wait)
	}
}

// testExact sends concurrent logins.
func (a *app) testExact(t *testing.T) {
	var admitted, refused atomic.Int32
	var senders sync.WaitGroup
	for range 4 * logins {
		senders.Go(func() {
			switch r := a.send(t, login("203.0.113.2")); r.status {
			case 200:
				admitted.Add(1)
			case 429:
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", r.status, r.body)
			}
		})
	}
	senders.Wait()
	if admitted.Load() != logins || refused.Load() != 3*logins {
		t.Errorf("%d logins admitted and %d refused, want %d and %d", admitted.Load(), refused.Load(), logins, 3*logins)
	}
}

// testForgedAddress sends logins with headers that a client can invent. They must not evade the limit of the address.
func (a *app) testForgedAddress(t *testing.T) {
	forgers := map[string]func(n int) request{
		"X-Forwarded-For without a proxy": func(n int) request {
			r := login(fmt.Sprintf("198.51.100.%d", n))
			r.from = stranger
			return r
		},
		"entry before the one of the proxy": func(n int) request { return login(fmt.Sprintf("198.51.100.%d, 203.0.113.3", n)) },
		"entry that is the proxy":           func(n int) request { return login(fmt.Sprintf("198.51.100.%d, 203.0.113.4, 127.0.0.1", n)) },
		"two headers": func(n int) request {
			r := login("203.0.113.5")
			r.headers = append([]string{fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", n)}, r.headers...)
			return r
		},
		"other headers": func(n int) request {
			forged := fmt.Sprintf("198.51.100.%d", n)
			return login("203.0.113.6", "Forwarded: for="+forged, "X-Real-IP: "+forged, "X-Client-IP: "+forged, "True-Client-IP: "+forged)
		},
		"Client-Ip": func(n int) request { return login("203.0.113.7", fmt.Sprintf("Client-Ip: 198.51.100.%d", n)) },
	}
	for name, forge := range forgers {
		t.Run(name, func(t *testing.T) {
			for n := range logins {
				if r := a.send(t, forge(n)); r.status != 200 {
					t.Fatalf("login %d: status %d, body %s; want 200", n, r.status, r.body)
				}
			}
			if r := a.send(t, forge(99)); r.status != 429 {
				t.Errorf("status %d after %d logins with forged addresses, want 429", r.status, logins)
			}
		})
	}
}

// testIPv6 sends logins from several addresses of a network.
func (a *app) testIPv6(t *testing.T) {
	for n := range logins {
		if r := a.send(t, login(fmt.Sprintf("2001:db8::%x", n+1))); r.status != 200 {
			t.Fatalf("login %d: status %d, want 200", n, r.status)
		}
	}
	if r := a.send(t, login("2001:db8::ffff")); r.status != 429 {
		t.Errorf("status %d for another address of the network, want 429", r.status)
	}
	if r := a.send(t, login("2001:db8:0:1::1")); r.status != 200 {
		t.Errorf("status %d for another network, want 200", r.status)
	}
}

// testSpellings sends logins with other spellings of the path, from a client whose logins are used up.
func (a *app) testSpellings(t *testing.T) {
	const ip = "203.0.113.8"
	for range logins {
		a.send(t, login(ip))
	}
	for _, path := range []string{
		"/login", "/login/", "//login", "/LOGIN", "/Login", "/%6Cogin", "/login?x=1", "/login.json", "/./login", "/x/../login", "/login;x=1",
		"/login%2f", "/login%20", "/login%00", `/\login`, "http://127.0.0.1/login",
	} {
		r := login(ip)
		r.path = path
		// A server may also refuse a path with 400 or close the connection.
		if answer, err := a.try(t.Context(), r); err == nil && answer.status < 300 {
			t.Errorf("POST %s: status %d, want an error", path, answer.status)
		}
	}
}

func (a *app) testUsers(t *testing.T, limiter *server) {
	items := func(ip, token string) response {
		return a.send(t, request{method: "GET", path: "/api/items", headers: []string{"X-Forwarded-For: " + ip, "Authorization: Bearer " + token}})
	}
	// Requests with unknown tokens are counted by address.
	items("203.0.113.9", "unknown-0")
	checkHeader(t, items("203.0.113.9", "unknown-1"), "X-RateLimit-Remaining", "98")
	if got := limiter.ask(t, "CL.CHECK shop COST 100 route x user ann"); got != ":0" {
		t.Fatalf("CL.CHECK returned %q, want :0", got)
	}
	for n := range 2 { // from any address
		if r := items(fmt.Sprintf("203.0.113.%d", 20+n), "token-of-ann"); r.status != 429 {
			t.Errorf("status %d after 100 requests of the user, want 429", r.status)
		}
	}
	if r := items("203.0.113.20", "token-of-bob"); r.status != 200 {
		t.Errorf("status %d for another user, want 200", r.status)
	}
	checkHeader(t, items("203.0.113.20", ""), "X-RateLimit-Remaining", "99")
}

// testPaused pauses the limiter. The application must admit requests after its deadline, and recover.
func (a *app) testPaused(t *testing.T, limiter *server) {
	limiter.pause(t)
	fastest := a.expectAdmission(t, "203.0.113.100")
	limiter.signal(t, syscall.SIGCONT)
	a.awaitDecision(t)
	t.Logf("fastest response while the limiter is paused: %v", fastest)
}

// testKilled kills the limiter, and starts it again.
func (a *app) testKilled(t *testing.T, limiter *server) {
	limiter.process.kill()
	fastest := a.expectAdmission(t, "203.0.113.101")
	limiter.start(t)
	a.awaitDecision(t)
	t.Logf("fastest response while the limiter is down: %v", fastest)
}

// expectAdmission checks that the application admits all logins without a decision and logs this. It returns the time of the
// fastest response, which must be short: a client library without a deadline waits for seconds, or forever.
func (a *app) expectAdmission(t *testing.T, ip string) time.Duration {
	t.Helper()
	before := strings.Count(a.process.log.String(), "admitted without a decision")
	fastest := patience
	for range 4 * logins {
		r := a.send(t, login(ip))
		if r.status != 200 || r.header.Get("RateLimit") != "" {
			t.Fatalf("status %d, RateLimit %q; want 200 and none", r.status, r.header.Get("RateLimit"))
		}
		fastest = min(fastest, r.elapsed)
	}
	var senders sync.WaitGroup
	for range 10 * logins {
		senders.Go(func() {
			if r := a.send(t, login(ip)); r.status != 200 {
				t.Errorf("status %d of a concurrent request, want 200", r.status)
			}
		})
	}
	senders.Wait()
	if fastest > time.Second {
		t.Errorf("the fastest response took %v, want less than a second", fastest)
	}
	eventually(t, a.process, func() error { // applications log one line a second
		a.send(t, login(ip))
		if strings.Count(a.process.log.String(), "admitted without a decision") == before {
			return fmt.Errorf("the application has not logged that it admits requests without a decision")
		}
		return nil
	})
	return fastest
}

func checkHeader(t *testing.T, r response, name, want string) {
	t.Helper()
	if got := strings.Join(r.header.Values(name), ", "); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// number returns a header that is a positive number of seconds within 15 minutes.
func number(t *testing.T, r response, name string) int {
	t.Helper()
	n, err := strconv.Atoi(r.header.Get(name))
	if err != nil || n < 1 || n > 900 {
		t.Errorf("%s is %q, want a number from 1 to 900", name, r.header.Get(name))
	}
	return n
}
