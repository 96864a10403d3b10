package clienttests

import (
	"slices"
	"testing"
)

const matrixPassword = "open sesame"

// security is a way in which a server authenticates clients.
type security struct {
	name     string     // a driver that lacks it does not run its checks
	commands [][]string // commands that prepare the server
	options  []string   // options of the driver
	checks   []string
}

// securities are run with each client.
var securities = []security{
	{
		name: "password", options: []string{"--password", matrixPassword}, checks: []string{"connect", "auth"},
	},
	{
		name:     "ACL user",
		commands: [][]string{{"ACL", "SETUSER", "shop", "on", ">secret", "~ACL*", "+cl.throttle", "+@connection", "+@transaction", "+info", "+command", "+cluster"}},
		options:  []string{"--user", "shop", "--password", "secret"}, checks: []string{"connect", "pipeline", "transaction", "error"},
	},
}

// test runs the checks with a server of their own, because wrong passwords are limited by the address of the client.
func (s security) test(t *testing.T, d *driver) {
	t.Helper()
	if d.lacks[s.name] != "" {
		return
	}
	srv := start(t, matrixPassword)
	srv.allow(`level=INFO msg="a user was changed"`)
	srv.allow(`level=WARN msg="(wrong password|login refused: too many wrong passwords from this address)"`)
	for _, command := range s.commands {
		if got := srv.ask(t, command...); got != "OK" {
			t.Fatalf("%q: got %v, want OK", command, got)
		}
	}
	args := append(target(modePlain, "ACL "+d.name+" "+s.name, "", srv.addr), s.options...)
	expectAll(t, d.check(t, d.supported(slices.Clone(s.checks)...), args...))
}
