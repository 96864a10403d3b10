package clienttests

import (
	"strconv"
	"testing"
)

// The password of the user default, and the credentials of another user.
const (
	matrixPassword = "open sesame"
	shopUser       = "shop"
	shopPassword   = "secret"
)

// shopRules are the permissions that the clients of the matrix need in all modes. The keys of its checks begin with "ACL".
var shopRules = []string{"on", ">" + shopPassword, "~ACL*", "&*", "+cl.throttle", "+@connection", "+@transaction", "+command", "+info", "+role", "+cluster", "+sentinel",
	"+subscribe", "+psubscribe", "+unsubscribe", "+punsubscribe"}

// place is a server or a cluster that clients connect to.
type place struct {
	plain, tls []string // addresses; those for TLS are empty if the place has no ports for TLS
	ca         string   // the file of the CA
	password   string   // of the user default; empty if there is none
}

// variant is a way to use a client: with a version of the protocol, with credentials, or with TLS.
type variant struct {
	name   string // a client that lacks it does not run its checks
	resp   int    // 0 if the client has its default
	shop   bool   // the client logs in as another user
	tls    bool
	checks []string
}

// basics are the checks of commands.
var basics = []string{"connect", "pipeline", "transaction", "error"}

// protocols are the variants that need no password, and secured the others.
var (
	protocols = []variant{
		{name: "defaults", checks: basics},
		{name: "RESP2", resp: 2, checks: basics},
		{name: "RESP3", resp: 3, checks: basics},
	}
	secured = []variant{
		{name: "password", checks: []string{"connect", "auth"}},
		{name: "ACL user", shop: true, checks: basics},
		{name: "TLS", tls: true, checks: basics},
	}
)

// arguments returns the options of a driver.
func (v variant) arguments(s subject, p place) []string {
	addresses, password, key := p.plain, p.password, s.String()+" "+v.name
	if v.tls {
		addresses = p.tls
	}
	var more []string
	if v.resp != 0 {
		more = append(more, "--resp", strconv.Itoa(v.resp))
	}
	if v.tls {
		more = append(more, "--tls-ca", p.ca)
	}
	if v.shop {
		password, key = shopPassword, "ACL "+key
		more = append(more, "--user", shopUser)
	}
	return append(target(s.mode, key, password, addresses...), more...)
}

// testVariants runs the checks of each variant that the client supports.
func (s subject) testVariants(t *testing.T, p place, variants []variant) {
	t.Helper()
	for _, v := range variants {
		if s.supports(v) {
			t.Run(v.name, func(t *testing.T) {
				expectAll(t, s.check(t, s.supported(v.checks...), v.arguments(s, p)...))
			})
		}
	}
}

// testConcurrent checks that exactly as many calls of concurrent callers are admitted as the limit permits.
func (s subject) testConcurrent(t *testing.T, p place) {
	t.Helper()
	if got := s.admitted(t, target(s.mode, s.String(), p.password, p.plain...)...); got != concurrentLimit {
		t.Errorf("%d callers: %d calls are admitted, want %d", concurrentCallers, got, concurrentLimit)
	}
}

// permitLogins permits the log lines of logins and of a changed user. On a busy machine, a handshake can take longer than
// permitted.
func (s *server) permitLogins() {
	s.allow(`level=WARN msg="a client has not completed its TLS handshake in time"`)
	s.allow(`level=INFO msg="a user was changed"`)
	s.allow(`level=WARN msg="wrong password"`)
}

// createShop creates the other user. In a cluster, it is a user of all nodes.
func (s *server) createShop(t *testing.T) {
	t.Helper()
	if got := s.ask(t, append([]string{"ACL", "SETUSER", shopUser}, shopRules...)...); got != "OK" {
		t.Fatalf("ACL SETUSER: got %v, want OK", got)
	}
}
