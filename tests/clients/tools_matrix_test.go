package clienttests

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
)

// site is a server, or a port of a node, to which tools connect.
type site struct {
	name           string
	server         *server
	address        string
	user, password string // empty if the tool sends none
	ca             string // file of the CA, if the port has TLS
}

// The names of the sites.
const (
	siteOpen     = "standalone"
	sitePassword = "password"
	siteUser     = "ACL user"
	siteTLS      = "TLS"
	siteFollower = "follower"
	siteLeader   = "leader"
	siteCluster  = "cluster port"
	siteSentinel = "Sentinel port"
)

var siteNames = []string{siteOpen, sitePassword, siteUser, siteTLS, siteFollower, siteLeader, siteCluster, siteSentinel}

// toolUser is the user as which tools log in. Its permissions are those that the tool needs.
const (
	toolUser     = "tool"
	toolPassword = "secret"
)

// newSites starts a server without a password, one with a password and TLS, and a cluster.
func newSites(t *testing.T) []site {
	t.Helper()
	open := start(t, "")
	locked, srv := startSecured(t)
	c, _ := startSecuredTrio(t)
	leader := c.awaitLeader(t)
	in := func(name, id, port string) site {
		return site{name: name, server: c.nodes[id], address: c.at(id, port), password: trioPassword}
	}
	return []site{
		{name: siteOpen, server: open, address: open.addr},
		{name: sitePassword, server: srv, address: locked.plain[0], password: matrixPassword},
		{name: siteUser, server: srv, address: locked.plain[0], user: toolUser, password: toolPassword},
		{name: siteTLS, server: srv, address: locked.tls[0], password: matrixPassword, ca: locked.ca},
		in(siteFollower, otherThan(leader), portForAll),
		in(siteLeader, leader, portForAll),
		in(siteCluster, leader, portForCluster),
		in(siteSentinel, otherThan(leader), portForSentinel),
	}
}

// hostPort returns the parts of the address.
func (s site) hostPort(t *testing.T) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// redisArguments returns the options with which redis-cli and redis-benchmark connect.
func (s site) redisArguments(t *testing.T) (args []string) {
	t.Helper()
	host, port := s.hostPort(t)
	args = []string{"-h", host, "-p", port}
	if s.password != "" {
		args = append(args, "-a", s.password)
	}
	if s.user != "" {
		args = append(args, "--user", s.user)
	}
	if s.ca != "" {
		args = append(args, "--tls", "--cacert", s.ca)
	}
	return args
}

// TestTools runs each tool with each site that it supports.
func TestTools(t *testing.T) {
	sites := newSites(t)
	passed := map[string]bool{}
	for _, tool := range clientTools {
		for _, s := range sites {
			if tool.run == nil || tool.lacks[s.name] != "" {
				continue
			}
			passed[tool.name+s.name] = t.Run(tool.name+" "+s.name, func(t *testing.T) {
				if s.user != "" {
					s.server.ask(t, append([]string{"ACL", "SETUSER", s.user, "reset", "on", ">" + s.password}, strings.Fields(tool.rules)...)...)
				}
				tool.run(t, s)
			})
		}
	}
	if *matrixWrite {
		replaceInClients(t, toolsBegin, toolsEnd, toolsReport(t, passed))
	}
}

// The lines of docs/clients.md between which the results of the tools are written.
const (
	toolsBegin = "<!-- Tools, written by \"make clients\". -->\n"
	toolsEnd   = "<!-- End of the tools written by \"make clients\". -->\n"
)

// toolsReport returns the table of tools and the modes of redis-cli.
func toolsReport(t *testing.T, passed map[string]bool) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "\n| tool | version | %s |\n|---|---|%s\n", strings.Join(siteNames, " | "), strings.Repeat("---|", len(siteNames)))
	for _, tool := range clientTools {
		fmt.Fprintf(&b, "| %s | %s |", tool.name, tool.version(t))
		for _, name := range siteNames {
			fmt.Fprintf(&b, " %s |", tool.cell(name, passed))
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nPermissions of the ACL user, and notes:\n\n")
	for _, tool := range clientTools {
		if tool.rules != "" {
			fmt.Fprintf(&b, "- %s, ACL user: `%s`\n", tool.name, tool.rules)
		}
		for _, name := range slices.Sorted(maps.Keys(tool.lacks)) {
			fmt.Fprintf(&b, "- %s, %s: %s\n", tool.name, name, tool.lacks[name])
		}
	}
	b.WriteString("\n" + cliReport() + "\n")
	return b.String()
}
