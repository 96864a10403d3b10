package peerlink

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/peerlink/certs"
)

// The defaults of a [Config].
//
// A peer uses up to 8 streams for Raft. What else it is to use, MaxPerPeer should be twice as much: that
// leaves room for those of a peer that has lost its power and is back before the
// streams it had are given up.
const (
	DefaultMaxConns         = 256
	DefaultMaxPerPeer       = 48
	DefaultMaxHandshakes    = 128
	DefaultHandshakeTimeout = 5 * time.Second
)

// Config says what a [Link] is. Cluster, Node and Bind must be set, and either Insecure
// or the three files.
type Config struct {
	Cluster   string // name of the cluster, as certs.CheckName has it
	Node      string // name of this node
	Bind      string // host:port to listen on; port 0 takes a free one
	Advertise string // host:port where others reach it; "": Bind, which then is no wildcard

	Boot uint64 // counts the starts of this node with its data; 0: unknown

	Insecure                  bool   // no TLS; all addresses must be loopback
	CertFile, KeyFile, CAFile string // PEM; CAFile may hold several certificates
	// RevokedFile lists the certificates that are not accepted any more, by serial number. Optional.
	RevokedFile string

	MaxConns         int           // accepted streams at once; 0: DefaultMaxConns
	MaxPerPeer       int           // of them, those of one node for one purpose; 0: DefaultMaxPerPeer
	MaxHandshakes    int           // connections that are no streams yet; 0: DefaultMaxHandshakes
	HandshakeTimeout time.Duration // until a connection must be a stream; 0: DefaultHandshakeTimeout

	Log *slog.Logger     // nil: slog.Default()
	Now func() time.Time // tells whether certificates are valid; nil: time.Now
}

// complete fills in the defaults.
func (c *Config) complete() {
	orDefault(&c.MaxConns, DefaultMaxConns)
	orDefault(&c.MaxPerPeer, DefaultMaxPerPeer)
	orDefault(&c.MaxHandshakes, DefaultMaxHandshakes)
	orDefault(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	if c.Advertise == "" {
		c.Advertise = c.Bind
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

func orDefault[T int | time.Duration](value *T, def T) {
	if *value <= 0 {
		*value = def
	}
}

// check finds what a Link cannot be opened with.
func (c *Config) check() error {
	if err := certs.CheckName(c.Cluster); err != nil {
		return fmt.Errorf("cluster %w", err)
	}
	if err := certs.CheckName(c.Node); err != nil {
		return fmt.Errorf("node %w", err)
	}
	bind, _, err := splitAddress(c.Bind)
	if err != nil {
		return fmt.Errorf("listen for nodes on %q: %w", c.Bind, err)
	}
	advertise, port, err := splitAddress(c.Advertise)
	switch {
	case err != nil:
		return fmt.Errorf("advertise %q: %w", c.Advertise, err)
	case isWildcard(advertise):
		return fmt.Errorf("advertise %q: other nodes need one address of this one", c.Advertise)
	case port == 0 && c.Advertise != c.Bind:
		return fmt.Errorf("advertise %q: the port is missing", c.Advertise)
	case c.Insecure && !isLoopback(bind):
		return fmt.Errorf("listen for nodes on %q: %w", c.Bind, ErrInsecure)
	case c.Insecure && !isLoopback(advertise):
		return fmt.Errorf("advertise %q: %w", c.Advertise, ErrInsecure)
	case !c.Insecure && (c.CertFile == "" || c.KeyFile == "" || c.CAFile == ""):
		return ErrNoCertificate
	}
	return nil
}

func splitAddress(s string) (host string, port uint64, err error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.ParseUint(text, 10, 16)
	return host, port, err
}

func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

// isLoopback reports whether a host can only be this one. Other names than localhost are
// not, wherever they lead today.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
