package edge

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/edge/edgetest"
	"github.com/throttledhq/throttled/options"
)

// run runs a command on the server that decides, as an administrator.
func (l *lab) run(words ...string) {
	l.tb.Helper()
	edgetest.Run(l.tb, l.backend.NewCaller(), words...)
}

// startWithUsers starts a lab with a password and these users: app may charge keys "app:*" with CL.THROTTLE, gate may use
// the rules of the domain shop, and ops may read rules and metrics.
func startWithUsers(t *testing.T) *lab {
	l := start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 })
	l.run("ACL", "SETUSER", "app", "on", ">app-pw", "+cl.throttle", "~app:*")
	l.run("ACL", "SETUSER", "gate", "on", ">gate:pw", "+cl.check", "+cl.report", "domain:shop")
	l.run("ACL", "SETUSER", "ops", "on", ">ops-pw", "+info", "+cl.rules|get")
	return l
}

func throttleOf(key string, quantity string) string {
	return `{"key":"` + key + `","max_burst":5,"count_per_period":10,"period":60,"quantity":` + quantity + `}`
}

func TestUsers(t *testing.T) {
	l := startWithUsers(t)
	const contentType = "Content-Type: application/json"
	check := `{"domain":"shop","attributes":{"path":"/free"}}`
	other := `{"domain":"other","attributes":{"path":"/free"}}`
	app, gate, ops := basic("app", "app-pw"), basic("gate", "gate:pw"), basic("ops", "ops-pw")
	for _, c := range []struct {
		method, target, body, credentials string
		status                            int
	}{
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), app, 200},
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), "Authorization: Bearer app:app-pw", 200},
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), "X-Throttled-Token: app:app-pw", 200},
		{"POST", "/v1/throttle", throttleOf("other", "1"), app, 403},
		{"POST", "/v1/throttle", throttleOf("app:1", "-1"), app, 403},
		{"POST", "/v1/throttle", throttleOf("app:1", "-1"), basic("default", "secret"), 200},
		{"POST", "/v1/throttle", throttleOf("other", "1"), "Authorization: Bearer secret", 200},
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), basic("app", "secret"), 401},
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), basic("nobody", "app-pw"), 401},
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), "Authorization: Bearer app-pw", 401},
		{"POST", "/v1/throttle", throttleOf("app:1", "1"), gate, 403},
		{"POST", "/v1/check", check, gate, 200},
		{"POST", "/v1/check", check, "Authorization: Bearer gate:gate:pw", 200},
		{"POST", "/v1/check", other, gate, 403},
		{"POST", "/v1/check", check, ops, 403},
		{"GET", "/v1/rules", "", ops, 200},
		{"GET", "/v1/rules", "", gate, 403},
		{"GET", "/metrics", "", ops, 200},
		{"GET", "/metrics", "", app, 403},
	} {
		r := l.do(c.method, c.target, c.body, c.credentials, contentType)
		if r.StatusCode != c.status {
			t.Errorf("%s %s %s with %q: %d %s, want %d", c.method, c.target, c.body, c.credentials, r.StatusCode, r.text, c.status)
		}
		if word := map[int]string{401: "unauthorized", 403: "forbidden"}[c.status]; word != "" && r.object(t)["error"] != word {
			t.Errorf("%s %s with %q: %s, want the error %s", c.method, c.target, c.credentials, r.text, word)
		}
	}
}

// A user that may only run CL.THROTTLE can use no other endpoint, except those that show nothing of the state.
func TestUsers_OtherEndpoints(t *testing.T) {
	l := startWithUsers(t)
	bodies := map[string]string{
		"/v1/check":       `{"domain":"shop","attributes":{"path":"/free"}}`,
		"/v1/check/batch": `{"checks":[{"domain":"shop","attributes":{"path":"/free"}}]}`,
		"/v1/report":      `{"domain":"shop","outcome":"status=401","attributes":{"path":"/report"}}`,
		"/v1/window":      `{"key":"app:1","limit":5,"period":60}`,
		"/v1/throttle":    throttleOf("other", "1"),
	}
	harmless := map[string]bool{"/healthz": true, "/readyz": true, "/openapi.json": true}
	for _, e := range endpointTable(true) {
		r := l.do(e.method, e.path, bodies[e.path], basic("app", "app-pw"), "Content-Type: application/json")
		refused := r.StatusCode == 403 || e.path == "/v1/check/batch" && strings.Contains(r.text, "no permissions")
		if refused == harmless[e.path] {
			t.Errorf("%s %s: %d %s", e.method, e.path, r.StatusCode, r.text)
		}
	}
	for i := range gateways {
		verb, path, lines := checkRequest(&gateways[i], "shop", "GET", "/free", "192.0.2.7")
		for token, want := range map[string]int{"app:app-pw": 401, "gate:gate:pw": 200, "gate:app-pw": 401} {
			if r := l.do(verb, path, "", append(lines, "X-Throttled-Token: "+token)...); r.StatusCode != want {
				t.Errorf("%s with %s: %d %s, want %d", gateways[i].name, token, r.StatusCode, r.text, want)
			}
		}
	}
}

// disablingAccess disables the user of a request after the login, and before the command.
type disablingAccess struct {
	Access
	disable func()
}

func (a disablingAccess) Authenticate(addr net.Addr, user, password []byte) (acl.Login, error) {
	defer a.disable()
	return a.Access.Authenticate(addr, user, password)
}

// A user that is disabled after the login gets 401, also for a request with more attributes than clients may send that are
// not logged in.
func TestUsers_DisabledAfterLogin(t *testing.T) {
	var l *lab
	l = start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", 0 }, func(s *Server) {
		s.access = disablingAccess{s.access, func() { l.run("ACL", "SETUSER", "gate", "off") }}
	})
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf(`"attribute-%d":"%s"`, i, strings.Repeat("v", 100)))
	}
	for _, attributes := range []string{`"path":"/free"`, strings.Join(many, ",")} {
		check := `{"domain":"shop","attributes":{` + attributes + `}}`
		for path, body := range map[string]string{"/v1/check": check, "/v1/check/batch": `{"checks":[` + check + `]}`} {
			l.run("ACL", "SETUSER", "gate", "on", ">pw", "+cl.check", "alldomains")
			r := l.do("POST", path, body, basic("gate", "pw"), "Content-Type: application/json")
			if path == "/v1/check" && (r.StatusCode != 401 || r.object(t)["error"] != "unauthorized" || r.Header.Get("WWW-Authenticate") == "") ||
				path != "/v1/check" && !strings.Contains(r.text, `"status":401`) {
				t.Errorf("%s with %d bytes: %d %s, want 401", path, len(body), r.StatusCode, r.text)
			}
		}
	}
}

// Changes of users affect connections whose credentials have been checked.
func TestUsers_Changes(t *testing.T) {
	l := startWithUsers(t)
	c := l.dial()
	in := bufio.NewReader(c)
	request := "GET /v1/rules HTTP/1.1\r\nHost: a\r\nX-Throttled-Token: ops:ops-pw\r\n\r\n"
	for _, step := range []struct {
		change []string
		status int
	}{
		{nil, 200},
		{[]string{"ACL", "SETUSER", "ops", "-cl.rules|get"}, 403},
		{[]string{"ACL", "SETUSER", "ops", "+cl.rules|get"}, 200},
		{[]string{"ACL", "SETUSER", "ops", "off"}, 401},
		{[]string{"ACL", "SETUSER", "ops", "on"}, 200},
		{[]string{"ACL", "SETUSER", "ops", "resetpass", ">other"}, 401},
		{[]string{"ACL", "SETUSER", "ops", ">ops-pw"}, 200},
		{[]string{"ACL", "DELUSER", "ops"}, 401},
	} {
		if step.change != nil {
			l.run(step.change...)
		}
		if r := roundTrip(t, c, in, request); r.StatusCode != step.status {
			t.Errorf("after %q: %d %s, want %d", step.change, r.StatusCode, r.text, step.status)
		}
	}
}

// Without a password of the user "default", requests without credentials have its permissions, and others those of their
// users.
func TestUsers_OpenDefault(t *testing.T) {
	l := start(t, func(o *options.Options) { o.AuthFailuresPerMinute = 0 })
	l.run("ACL", "SETUSER", "app", "on", ">app-pw", "+cl.throttle", "~app:*")
	for credentials, want := range map[string]int{
		"X-None: 1": 200, "Authorization: Bearer any": 200, "Authorization: Digest x": 200,
		basic("app", "app-pw"): 403, basic("app", "wrong"): 401, basic("nobody", "x"): 401,
	} {
		if r := l.do("GET", "/v1/rules", "", credentials); r.StatusCode != want {
			t.Errorf("%q: %d %s, want %d", credentials, r.StatusCode, r.text, want)
		}
	}
}
