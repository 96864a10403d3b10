package transport

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// The defaults of a [Config].
//
// A peer uses up to 8 streams for Raft. MaxPerPeer should be at least twice the number of
// streams that a peer uses for one purpose, because a peer that restarts after a power
// failure opens new streams before its old ones are closed.
const (
	DefaultMaxConns         = 256
	DefaultMaxPerPeer       = 48
	DefaultMaxHandshakes    = 128
	DefaultHandshakeTimeout = 5 * time.Second
)

// Config configures a [Link]. Cluster, Node and Bind must be set, and either Insecure or the three
// files CertFile, KeyFile and CAFile.
type Config struct {
	Cluster   string // name of the cluster, see topology.CheckName
	Node      string // name of this node
	Bind      string // host:port to listen on; port 0 chooses a free one
	Advertise string // host:port at which other nodes reach this node; "": Bind, which must then not be a wildcard

	Boot uint64 // number of starts of this node with its data; 0: unknown

	Insecure                  bool   // no TLS; all addresses must be loopback
	CertFile, KeyFile, CAFile string // PEM; CAFile may hold several certificates
	// RevokedFile lists the serial numbers of revoked certificates. Optional.
	RevokedFile string

	MaxConns         int           // maximum number of accepted streams; 0: DefaultMaxConns
	MaxPerPeer       int           // maximum number of accepted streams per node and purpose; 0: DefaultMaxPerPeer
	MaxHandshakes    int           // maximum number of pending connections; 0: DefaultMaxHandshakes
	HandshakeTimeout time.Duration // time for a connection to become a stream; 0: DefaultHandshakeTimeout

	Log *slog.Logger     // nil: slog.Default()
	Now func() time.Time // clock for the validity of certificates; nil: time.Now
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

// check validates the configuration.
func (c *Config) check() error {
	if err := topology.CheckName(c.Cluster); err != nil {
		return fmt.Errorf("cluster %w", err)
	}
	if err := topology.CheckName(c.Node); err != nil {
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
		return fmt.Errorf("advertise %q: other nodes cannot dial a wildcard address; set raft-advertise to an address of this node", c.Advertise)
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

// isLoopback reports whether a host always refers to this machine. It returns false for
// names other than localhost, regardless of their current addresses.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
