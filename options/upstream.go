package options

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/limiter"
)

// upstreams is a list of host:port, separated by commas or white space. Each occurs once, and has a host that a client
// can connect to.
type upstreams struct{ p *[]string }

func (v upstreams) String() string { return strings.Join(*v.p, " ") }
func (v upstreams) want() string   { return "host:port, separated by commas or spaces" }

func (v upstreams) Set(s string) error {
	var list []string
	seen := map[string]bool{}
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || strings.ContainsRune(" \t\r\n\v\f", r) }) {
		if err := checkEndpoint(word); err != nil {
			return err
		}
		switch {
		case isEverywhere(word):
			return fmt.Errorf("argument must have a host to connect to, not %s", quote(word))
		case seen[word]:
			return fmt.Errorf("argument contains %s twice", quote(word))
		}
		seen[word] = true
		list = append(list, word)
	}
	*v.p = list
	return nil
}

// fraction is a number above 0 and at most 1: a decimal number, or 1/n.
type fraction struct{ p *float64 }

func (v fraction) want() string { return "1/n, or a number above 0 and at most 1" }

func (v fraction) String() string {
	if n := math.Round(1 / *v.p); *v.p < 1 && 1/n == *v.p {
		return fmt.Sprintf("1/%.0f", n)
	}
	return strconv.FormatFloat(*v.p, 'g', -1, 64)
}

func (v fraction) Set(s string) error {
	digits, inverse := strings.CutPrefix(s, "1/")
	f, err := strconv.ParseFloat(digits, 64)
	if inverse && f != 0 {
		f = 1 / f
	}
	if err != nil || !(f > 0 && f <= 1) {
		return errors.New("argument must be " + v.want())
	}
	*v.p = f
	return nil
}

// lesseeName is a name that CL.LEASE accepts as LESSEE, or empty.
type lesseeName struct{ p *string }

func (v lesseeName) String() string { return *v.p }
func (v lesseeName) want() string   { return fmt.Sprintf("at most %d bytes long", limiter.MaxLessee) }

func (v lesseeName) Set(s string) error {
	if len(s) > limiter.MaxLessee {
		return errors.New("argument must be " + v.want())
	}
	*v.p = s
	return nil
}

// IsSidecar reports whether the server is a sidecar: it stores no keys, and sends commands that need them to Upstream.
func (o *Options) IsSidecar() bool { return len(o.Upstream) > 0 }

// stateOptions are options that have no effect on a sidecar, because they concern the state.
var stateOptions = []string{"data-dir", "save", "cluster-id", "rules", "maxmemory", "maxmemory-policy"}

// ofSidecar returns the first option that has an effect only with upstream and whose value in o is not the default. It returns
// nil if there is none.
func (o *Options) ofSidecar(defaults *Options) *row {
	for i := range upstreamRows {
		if r := &upstreamRows[i]; r.name != "upstream" && r.get(o) != r.get(defaults) {
			return r
		}
	}
	return nil
}

// CheckUpstream returns an error if options of a sidecar exclude other options, or are incomplete. The program calls it
// at startup and for changes by CONFIG SET, and [Store.Reload] calls it for the values that it has read.
func (o *Options) CheckUpstream() error {
	defaults := Default()
	if !o.IsSidecar() {
		if r := o.ofSidecar(&defaults); r != nil {
			return fmt.Errorf("%s requires upstream: set upstream, or remove %s", r.name, r.name)
		}
		return nil
	}
	for _, name := range stateOptions {
		if r := find(name); r.get(o) != r.get(&defaults) {
			return fmt.Errorf("upstream and %s exclude each other: a sidecar holds no state, set %s on %s", name, name, o.Upstream[0])
		}
	}
	switch {
	case o.UpstreamUser != "" && o.UpstreamPasswordFile == "":
		return errors.New("upstream-user requires upstream-password-file")
	case !o.UpstreamTLS && o.UpstreamTLSCACertFile+o.UpstreamTLSCertFile+o.UpstreamTLSKeyFile+o.UpstreamTLSServerName != "":
		return errors.New("upstream-tls-ca-cert-file, upstream-tls-cert-file, upstream-tls-key-file and upstream-tls-server-name require upstream-tls")
	case (o.UpstreamTLSCertFile == "") != (o.UpstreamTLSKeyFile == ""):
		return errors.New("upstream-tls-cert-file and upstream-tls-key-file require each other")
	}
	return nil
}
