package options

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/topology"
)

// name is the name of a cluster or a node, in the form required in certificates. It may be empty.
type name struct{ p *string }

func (v name) String() string { return *v.p }

func (v name) want() string {
	return fmt.Sprintf("at most %d letters, digits and hyphens", topology.MaxName)
}

func (v name) Set(s string) error {
	if s != "" && topology.CheckName(s) != nil {
		return fmt.Errorf("argument must be %s", v.want())
	}
	*v.p = s
	return nil
}

// endpoint is host:port. It may be empty.
type endpoint struct{ p *string }

func (v endpoint) String() string { return *v.p }
func (v endpoint) want() string   { return "host:port" }

func (v endpoint) Set(s string) error {
	if s != "" {
		if err := checkEndpoint(s); err != nil {
			return err
		}
	}
	*v.p = s
	return nil
}

func checkEndpoint(s string) error {
	host, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || !isAddress(host) || host == "*" {
		return fmt.Errorf("argument must be host:port, not %s", quote(s))
	}
	return nil
}

// endpoints is a list of host:port, separated by white space.
type endpoints struct{ p *[]string }

func (v endpoints) String() string { return strings.Join(*v.p, " ") }
func (v endpoints) want() string   { return "host:port, separated by spaces" }

func (v endpoints) Set(s string) error {
	var list []string
	for _, word := range strings.Fields(s) {
		if err := checkEndpoint(word); err != nil {
			return err
		}
		list = append(list, word)
	}
	*v.p = list
	return nil
}

// nodes is a list of nodes, separated by white space.
type nodes struct{ p *[]Node }

var errNodeTwice = errors.New("argument contains a node or an address twice")

func (v nodes) want() string { return "NAME=host:port, separated by spaces" }

func (v nodes) String() string {
	words := make([]string, len(*v.p))
	for i, n := range *v.p {
		words[i] = n.ID + "=" + n.Addr
	}
	return strings.Join(words, " ")
}

func (v nodes) Set(s string) error {
	list, err := ParseNodes(s)
	if err == nil {
		*v.p = list
	}
	return err
}

// ParseNodes parses a list of nodes in the format of the option bootstrap: NAME=host:port,
// separated by white space. It returns an error if a name or an address occurs twice, or
// if a host is missing or an unspecified address such as 0.0.0.0. An empty s is an empty list.
func ParseNodes(s string) ([]Node, error) {
	var list []Node
	seen := map[string]bool{}
	for _, word := range strings.Fields(s) {
		n, err := parseNode(word)
		if err != nil {
			return nil, err
		}
		if seen[n.ID] || seen[n.Addr] {
			return nil, errNodeTwice
		}
		seen[n.ID], seen[n.Addr] = true, true
		list = append(list, n)
	}
	return list, nil
}

func parseNode(word string) (Node, error) {
	id, addr, found := strings.Cut(word, "=")
	if !found || topology.CheckName(id) != nil {
		return Node{}, fmt.Errorf("argument must be NAME=host:port, not %s", quote(word))
	}
	if err := checkEndpoint(addr); err != nil {
		return Node{}, err
	}
	if isEverywhere(addr) {
		return Node{}, fmt.Errorf("argument must have a host that other nodes can reach, not %s", quote(word))
	}
	return Node{id, addr}, nil
}

// isEverywhere reports whether an endpoint has no host or an unspecified address:
// valid to listen on, but not to connect to.
func isEverywhere(addr string) bool {
	host, _, _ := net.SplitHostPort(addr) // checked by the caller
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}
