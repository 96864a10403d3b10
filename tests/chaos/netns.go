package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// network is a bridge with a network namespace for each node. The clients run in the namespace of
// this program, on the bridge. All names begin with a prefix that contains the process id.
type network struct {
	prefix string
	subnet string // first three bytes of the addresses
	bridge string
	hosts  []*host
}

// host is the network namespace of a node.
type host struct {
	net  *network
	ns   string
	addr string
	cuts int // number of cuts so far; it is part of the names of their nftables tables
}

const (
	namePrefix  = "thchaos"
	routerPlace = 254 // last byte of the bridge's address
)

// newNetwork creates the bridge. It first removes networks left behind by processes that
// have exited.
func newNetwork() (*network, error) {
	if err := removeLeftovers(); err != nil {
		return nil, err
	}
	n := &network{prefix: fmt.Sprintf("%s%x", namePrefix, os.Getpid())}
	n.bridge = n.prefix // an interface name may have 15 bytes; the prefix has 7, and the process id at most 6
	n.subnet = fmt.Sprintf("10.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255)
	err := errors.Join(
		ip("link", "add", n.bridge, "type", "bridge"),
		ip("addr", "add", fmt.Sprintf("%s.%d/24", n.subnet, routerPlace), "dev", n.bridge),
		ip("link", "set", n.bridge, "up"),
	)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// add creates the next host.
func (n *network) add() (*host, error) {
	place := len(n.hosts) + 1
	h := &host{net: n, ns: fmt.Sprintf("%s-%d", n.prefix, place), addr: fmt.Sprintf("%s.%d", n.subnet, place)}
	outer := n.link(place)
	n.hosts = append(n.hosts, h)
	for _, words := range [][]string{
		{"netns", "add", h.ns},
		{"link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", h.ns},
		{"link", "set", outer, "master", n.bridge, "up"},
		{"-n", h.ns, "addr", "add", h.addr + "/24", "dev", "eth0"},
		{"-n", h.ns, "link", "set", "eth0", "up"},
		{"-n", h.ns, "link", "set", "lo", "up"},
	} {
		if err := ip(words...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// link returns the name of the interface by which the bridge is connected to a host.
func (n *network) link(place int) string { return fmt.Sprintf("%sv%d", n.prefix, place) }

// close removes the network. All processes in it must have exited.
func (n *network) close() error {
	var errs []error
	for i, h := range n.hosts {
		// Delete the link explicitly, since the kernel deletes it only some time after the
		// namespace.
		errs = append(errs, ip("link", "del", n.link(i+1)), ip("netns", "del", h.ns))
	}
	return errors.Join(append(errs, ip("link", "del", n.bridge))...)
}

// command returns a command that runs a program on the host. The process of the command is the
// program itself, because "ip netns exec" replaces itself with the program.
func (h *host) command(words ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.ns}, words...)...)
}

func ip(words ...string) error { return run(exec.Command("ip", words...)) }

// run runs a command. Its error includes the output.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

var ours = regexp.MustCompile(`\b` + namePrefix + `([0-9a-f]{1,6})(-\d+)?\b`)

// removeLeftovers removes the networks of processes that have exited.
func removeLeftovers() error {
	spaces, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return fmt.Errorf("ip netns list: %w", err)
	}
	links, err := exec.Command("ip", "-br", "link", "show", "type", "bridge").Output()
	if err != nil {
		return fmt.Errorf("ip link: %w", err)
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range deadOnes(string(spaces), alive) {
		errs = append(errs, killIn(name), ip("netns", "del", name))
	}
	for line := range strings.Lines(string(mounts)) {
		if words := strings.Fields(line); len(deadOnes(words[0], alive)) > 0 {
			errs = append(errs, run(exec.Command("umount", words[1])))
		}
	}
	for _, name := range deadOnes(string(links), alive) {
		errs = append(errs, ip("link", "del", name))
	}
	return errors.Join(errs...)
}

// killIn kills the processes in a namespace.
func killIn(ns string) error {
	out, err := exec.Command("ip", "netns", "pids", ns).Output()
	if err != nil {
		return fmt.Errorf("processes in %s: %w", ns, err)
	}
	for _, word := range strings.Fields(string(out)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("processes in %s: %w", ns, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// deadOnes returns the names of networks and hosts in a text that were created by processes that
// have exited.
func deadOnes(text string, alive func(pid int) bool) (names []string) {
	for _, m := range ours.FindAllStringSubmatch(text, -1) {
		pid, err := strconv.ParseInt(m[1], 16, 32)
		if err == nil && !alive(int(pid)) {
			names = append(names, m[0])
		}
	}
	return names
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
