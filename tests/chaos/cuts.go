package main

import (
	"fmt"
	"strings"
)

// rule selects packets that a host drops, by the addresses of other hosts.
type rule struct {
	in, out []string // source addresses of received packets, destination addresses of sent packets
	percent int      // share of these packets that is dropped; 100 drops all
	reset   bool     // reset connections instead of dropping packets
}

// table returns the rule as an nftables table.
func (r rule) table(name string) string {
	chance, verdict := "", "drop"
	if r.percent < 100 {
		chance = fmt.Sprintf("numgen random mod 100 < %d ", r.percent)
	}
	if r.reset {
		verdict = "reject with tcp reset"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {\n", name)
	for _, way := range []struct {
		hook, field string
		addrs       []string
	}{{"input", "saddr", r.in}, {"output", "daddr", r.out}} {
		if len(way.addrs) == 0 {
			continue
		}
		fmt.Fprintf(&b, "chain %s {\ntype filter hook %s priority 0;\n", way.hook, way.hook)
		match := fmt.Sprintf("ip %s { %s } ", way.field, strings.Join(way.addrs, ", "))
		if r.reset {
			match += "ip protocol tcp "
		}
		fmt.Fprintf(&b, "%s%s%s\n}\n", match, chance, verdict)
	}
	b.WriteString("}\n")
	return b.String()
}

// cut applies a rule to the host. The returned function, heal, removes the rule.
func (h *host) cut(r rule) (heal func() error, err error) {
	h.cuts++
	name := fmt.Sprintf("cut%d", h.cuts)
	cmd := h.command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(r.table(name))
	if err := run(cmd); err != nil {
		return nil, err
	}
	return func() error { return run(h.command("nft", "delete", "table", "ip", name)) }, nil
}

// slow limits the rate at which the host sends, in kbit/s. The returned function, heal, removes the
// limit.
func (h *host) slow(kbit int) (heal func() error, err error) {
	err = run(h.command("tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
		"rate", fmt.Sprintf("%dkbit", kbit), "burst", "8kb", "latency", "300ms"))
	if err != nil {
		return nil, err
	}
	return func() error { return run(h.command("tc", "qdisc", "del", "dev", "eth0", "root")) }, nil
}
