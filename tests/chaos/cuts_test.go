package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRuleTable(t *testing.T) {
	const in, out = "chain input {\ntype filter hook input priority 0;\n", "chain output {\ntype filter hook output priority 0;\n"
	for _, tt := range []struct {
		rule rule
		want string
	}{
		{rule{in: []string{"1.2.3.4", "1.2.3.5"}, percent: 100}, in + "ip saddr { 1.2.3.4, 1.2.3.5 } drop\n}\n"},
		{rule{out: []string{"1.2.3.4"}, percent: 20}, out + "ip daddr { 1.2.3.4 } numgen random mod 100 < 20 drop\n}\n"},
		{rule{in: []string{"1.2.3.4"}, percent: 100, reset: true}, in + "ip saddr { 1.2.3.4 } ip protocol tcp reject with tcp reset\n}\n"},
		{rule{in: []string{"a"}, out: []string{"b"}, percent: 100}, in + "ip saddr { a } drop\n}\n" + out + "ip daddr { b } drop\n}\n"},
	} {
		if got, want := tt.rule.table("cut1"), "table ip cut1 {\n"+tt.want+"}\n"; got != want {
			t.Errorf("rule %+v: the table is\n%s, want the table of the test case", tt.rule, got)
		}
	}
}

func TestDeadOnes(t *testing.T) {
	text := "thchaosa1-2 (id: 3)\nthchaosff\nthchaosb2v1@if2\nother\nthchaosa1-3\nxthchaosa1\n"
	got := deadOnes(text, func(pid int) bool { return pid == 0xff })
	if want := []string{"thchaosa1-2", "thchaosa1-3"}; !slices.Equal(got, want) {
		t.Errorf("names of exited processes: got %v, want those of process a1", got)
	}
	if got := deadOnes(text, func(int) bool { return true }); got != nil {
		t.Errorf("running processes are listed as dead: %v", got)
	}
}

// TestNetwork checks that a cut prevents connections, and that heal removes a cut and a limit of
// the rate.
func TestNetwork(t *testing.T) {
	if err := missing(); err != nil {
		t.Fatal(err)
	}
	n, err := newNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	a, err := n.add()
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.add()
	if err != nil {
		t.Fatal(err)
	}
	// No process listens, so a connection attempt that gets through is refused immediately.
	connect := func(from, to *host, seconds string) string {
		out, _ := from.command("timeout", seconds, "bash", "-c", "exec 3<>/dev/tcp/"+to.addr+"/9").CombinedOutput()
		return string(out)
	}
	reaches := func(from, to *host, seconds string) bool {
		return strings.Contains(connect(from, to, seconds), "refused")
	}
	const patience, moment = "60", "0.4"
	if !reaches(a, b, patience) || !reaches(b, a, patience) {
		t.Fatalf("no connection without a cut: %q", connect(a, b, patience))
	}
	for _, r := range []rule{{in: []string{b.addr}, percent: 100}, {out: []string{b.addr}, percent: 100}} {
		heal, err := a.cut(r)
		if err != nil {
			t.Fatal(err)
		}
		if reaches(a, b, moment) || reaches(b, a, moment) {
			t.Errorf("rule %+v: while the rule applies, a host reaches the other host; want no connection", r)
		}
		if err := heal(); err != nil || !reaches(a, b, patience) {
			t.Errorf("rule %+v: after heal a host does not reach the other host: %v", r, err)
		}
	}
	heal, err := a.slow(1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := heal(); err != nil || !reaches(a, b, patience) {
		t.Errorf("slow link: after heal the other host is not reached: %v", err)
	}
}
