package options

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// name is the name of a cluster or a node, which stands in certificates; or none.
type name struct{ p *string }

const maxName = 40

func (v name) String() string { return *v.p }
func (v name) want() string   { return "at most 40 letters, digits and hyphens" }

func (v name) Set(s string) error {
	if !isName(s) && s != "" {
		return fmt.Errorf("argument must be %s", v.want())
	}
	*v.p = s
	return nil
}

// isName reports whether s can be a label of a domain name in lower or upper case.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		inside := i > 0 && i < len(s)-1
		if !letter && !digit && (c != '-' || !inside) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// endpoint is a host and a port, or none.
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
		return fmt.Errorf("argument must be host:port, which %s is not", quote(s))
	}
	return nil
}

// endpoints is a list of them, separated by white space.
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

var errNodeTwice = errors.New("argument names a node or an address twice")

func (v nodes) want() string { return "NAME=host:port, separated by spaces" }

func (v nodes) String() string {
	words := make([]string, len(*v.p))
	for i, n := range *v.p {
		words[i] = n.ID + "=" + n.Addr
	}
	return strings.Join(words, " ")
}

func (v nodes) Set(s string) error {
	var list []Node
	seen := map[string]bool{}
	for _, word := range strings.Fields(s) {
		id, addr, _ := strings.Cut(word, "=")
		if !isName(id) {
			return fmt.Errorf("argument must be NAME=host:port, which %s is not", quote(word))
		}
		if err := checkEndpoint(addr); err != nil {
			return err
		}
		if seen[id] || seen[addr] {
			return errNodeTwice
		}
		seen[id], seen[addr] = true, true
		list = append(list, Node{id, addr})
	}
	*v.p = list
	return nil
}
