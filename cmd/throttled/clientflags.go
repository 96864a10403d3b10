package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/throttledhq/throttled/internal/tlsclient"
	"github.com/throttledhq/throttled/options"
)

// clientFlags holds the flags of the commands that connect to a server. The address and the password are those of the server
// that the configuration file and the environment describe, unless the flags set others. A health check in a container
// therefore needs no flags.
type clientFlags struct {
	addrName          string // name of the flag addr
	config            string // path of the configuration file; "" for that of the environment
	addr              string
	user              string // "" for the default user
	passwordFile      string
	tls               bool
	cacert, cert, key string
	sni               string // name in the certificate of the server; "" for the host of the address
}

// register adds the flags to a set. addrName is the name of the flag with the address.
func (c *clientFlags) register(f *flag.FlagSet, addrName string) {
	c.addrName = addrName
	f.StringVar(&c.addr, addrName, "", "`HOST:PORT` of the server; default: bind and port (with --tls, tls-port) of the configuration")
	f.StringVar(&c.config, "config", "", "`FILE` with the configuration of the server; the environment is read as well")
	f.StringVar(&c.user, "user", "", "`NAME` of the user; default: the default user")
	f.StringVar(&c.passwordFile, "password-file", "", "`FILE` with the password; default: requirepass or requirepass-file of the configuration")
	f.BoolVar(&c.tls, "tls", false, "connect with TLS")
	f.StringVar(&c.cacert, "cacert", "", "`FILE` with the certificate of the CA of the server; default: those of the system")
	f.StringVar(&c.sni, "sni", "", "`NAME` in the certificate of the server; default: the host of the address")
	f.StringVar(&c.cert, "cert", "", "`FILE` with the certificate of the client")
	f.StringVar(&c.key, "key", "", "`FILE` with the key of that certificate")
}

// disableClientLogs disables the log of go-redis, which is shared by all clients: their errors are returned.
var disableClientLogs = sync.OnceFunc(logging.Disable)

// client returns a client of the server, which has no connection yet. The timeouts apply to connecting, and to each read
// and write. A connection that fails is not repeated, so that the error is its reason, and not that the time has passed.
func (c *clientFlags) client(timeout time.Duration) (*redis.Client, error) {
	if err := c.check(); err != nil {
		return nil, &usageError{err}
	}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	disableClientLogs()
	r := &redis.Options{
		Addr: c.addr, Username: c.user, Password: o.Password(), Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.addr == "" {
		if r.Addr, err = c.localAddr(o); err != nil {
			return nil, err
		}
	}
	if c.passwordFile != "" {
		text, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--password-file: %w", err)
		}
		r.Password = strings.TrimRight(string(text), "\r\n")
	}
	if r.TLSConfig, err = c.tlsConfig(r.Addr); err != nil {
		return nil, err
	}
	return redis.NewClient(r), nil
}

// check returns an error if flags contradict each other, or if the address has no port.
func (c *clientFlags) check() error {
	if (c.cert == "") != (c.key == "") || !c.tls && c.cacert+c.cert+c.sni != "" {
		return errClientTLS
	}
	if _, port, err := net.SplitHostPort(c.addr); c.addr != "" && (err != nil || port == "") {
		return fmt.Errorf("--%s must be HOST:PORT, not %q", c.addrName, c.addr)
	}
	return nil
}

// options returns the options of the server.
func (c *clientFlags) options() (*options.Options, error) {
	var args []string
	if c.config != "" {
		args = []string{"--config", c.config}
	}
	store, err := options.Load(args, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("read the options of the server: %w", err)
	}
	return store.Get(), nil
}

var errTLSOnly = errors.New("the server has no port without TLS: specify --tls and --cacert, and if it requires client certificates, --cert and --key")

// localAddr returns the address at which a client on the same host reaches a server.
func (c *clientFlags) localAddr(o *options.Options) (string, error) {
	port := o.Port
	if o.TLSPort != 0 {
		switch {
		case c.tls:
			port = o.TLSPort
		case port == 0:
			return "", errTLSOnly
		}
	}
	host := "127.0.0.1"
	switch first := o.Bind[0]; first {
	case "*", "", "0.0.0.0":
	case "::":
		host = "::1"
	default:
		host = first
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

var errClientTLS = errors.New("--cacert, --cert, --key and --sni require --tls, and --cert and --key require each other")

// tlsConfig returns the configuration for a server at addr. It is nil without --tls.
func (c *clientFlags) tlsConfig(addr string) (*tls.Config, error) {
	if !c.tls {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	files := tlsclient.Files{CA: c.cacert, CAOption: "--cacert", Cert: c.cert, Key: c.key, PairOptions: "--cert and --key"}
	return files.Config(c.sni, host)
}
