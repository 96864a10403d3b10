package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
)

// listener is a net.Listener, and the function that serves its connections.
type listener struct {
	net.Listener
	serve serveFunc
}

// serveFunc serves the connections of a listener until the program is shut down.
type serveFunc func(ctx context.Context, p *program, ln net.Listener) error

// byServer returns the serveFunc that calls a method of the server for Redis clients.
func byServer(serve func(*server.Server, net.Listener) error) serveFunc {
	return func(_ context.Context, p *program, ln net.Listener) error { return serve(p.server, ln) }
}

// listen binds the addresses of all listeners.
func (p *program) listen(o *options.Options) error {
	if o.ServesPlain() {
		if err := p.bind("port", o.Bind, o.Port, byServer((*server.Server).Serve)); err != nil {
			return err
		}
	}
	if err := errors.Join(p.listenTLS(o), p.listenEdges(o)); err != nil {
		return err
	}
	if o.ClusterID == "" {
		return nil
	}
	if err := p.bindIf("cluster-port", o.ClusterPort, o.Bind, byServer((*server.Server).ServeCluster)); err != nil {
		return err
	}
	if err := p.bindIf("leader-port", o.ServedLeaderPort(), o.Bind, byServer((*server.Server).ServeLeader)); err != nil {
		return err
	}
	return p.bindIf("sentinel-port", o.SentinelPort, o.Bind, byServer((*server.Server).ServeSentinel))
}

// bindIf binds the addresses of a listener, unless port is 0.
func (p *program) bindIf(option string, port int, hosts []string, serve serveFunc) error {
	if port == 0 {
		return nil
	}
	return p.bind(option, hosts, port, serve)
}

// bind binds the addresses of one kind of listener. If port is 0, the free port that the first listener gets is used
// for all. An error names the option of the port.
func (p *program) bind(option string, hosts []string, port int, serve serveFunc) error {
	for _, host := range hosts {
		if host == "*" {
			host = ""
		}
		ln, err := listenTCP(net.JoinHostPort(host, strconv.Itoa(port)), p.opts.Get().ClientReceiveBuffer)
		if err != nil {
			return wrongAddress(option, err)
		}
		p.listeners = append(p.listeners, listener{ln, serve})
		port = ln.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// wrongAddress adds the name of the option to an error of listenTCP: that of the port, or bind if the host has no address, or the
// address does not belong to this machine.
func wrongAddress(port string, err error) error {
	var lookup *net.DNSError
	if errors.As(err, &lookup) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("option bind: %w", err)
	}
	return fmt.Errorf("option %s: %w", port, err)
}

// listenTCP binds an address. Accepted connections inherit the size of the receive buffer in bytes, unless it is 0. It must
// be set before connections are accepted, because the window scale of a connection depends on it.
func listenTCP(addr string, receiveBuffer int64) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1} // the server sets keep-alive for each connection
	if receiveBuffer > 0 {
		config.Control = func(_, _ string, raw syscall.RawConn) error { return setReceiveBuffer(raw, int(receiveBuffer)) }
	}
	return config.Listen(context.Background(), "tcp", addr)
}

// setReceiveBuffer sets the size of the receive buffer of a socket in bytes. It also prevents the kernel from extending the
// buffer. On Linux, the size is limited to twice net.core.rmem_max.
func setReceiveBuffer(raw syscall.RawConn, size int) (err error) {
	if runtime.GOOS == "linux" {
		size /= 2 // Linux doubles it for its own data, of which large segments need little
	}
	failed := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size))
	})
	return errors.Join(failed, err)
}
