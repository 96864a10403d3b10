package grpcedge

import (
	"context"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/throttledhq/throttled/acl"
)

// healthPrefix begins the names of the methods of health checks.
const healthPrefix = "/grpc.health.v1.Health/"

// authorize returns an error unless the client may call a method. It is called before the message is received, so that
// clients without the password cannot make the server hold messages. Health checks need no permission.
func (c *core) authorize(ctx context.Context, info *tap.Info) (context.Context, error) {
	if strings.HasPrefix(info.FullMethodName, healthPrefix) {
		return ctx, nil
	}
	p, ok := peer.FromContext(ctx)
	switch {
	case !ok:
		return nil, status.Error(codes.Internal, "the address of the client is unknown")
	case !c.Access.Accepts(plainAddr(p.Addr)):
		return nil, status.Error(codes.PermissionDenied, "in protected mode without a password, only clients on this host are accepted; set requirepass")
	case !c.Access.RequiresPassword():
		return ctx, nil
	}
	password, given := passwordOf(info.Header.Get("authorization"))
	if !given {
		return nil, status.Error(codes.Unauthenticated, `a password is required: send it in the metadata "authorization: Bearer PASSWORD"`)
	}
	return ctx, c.authenticate(p.Addr, password)
}

// authenticate returns a status unless the password is right.
func (c *core) authenticate(addr net.Addr, password string) error {
	users := c.Access.Users() // before the check: users that change meanwhile are another pointer
	known, ok := addr.(*clientAddr)
	if ok && known.knows(users, password) {
		return nil
	}
	if _, err := c.Access.Authenticate(plainAddr(addr), []byte(acl.DefaultName), []byte(password)); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	if ok {
		known.right.Store(&authenticated{users, password})
	}
	return nil
}

// plainAddr returns the address of a clientAddr.
func plainAddr(addr net.Addr) net.Addr {
	if a, ok := addr.(*clientAddr); ok {
		return a.Addr
	}
	return addr
}

// passwordOf returns the password in the metadata "authorization". given is false if there is none, or more than one.
func passwordOf(values []string) (password string, given bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, rest, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimLeft(rest, " "), true
}

// intercept converts a panic to an error, and observes the call.
func (c *core) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error("a gRPC call panicked", "panic", p, "method", info.FullMethod, "stack", string(debug.Stack()))
			resp, err = nil, status.Error(codes.Internal, "internal error")
		}
		if c.Observe != nil {
			c.Observe(methodName(info.FullMethod), status.Code(err), time.Since(start))
		}
	}()
	return handler(ctx, req)
}

// methodName returns the name of a method with that of its service, without the package: Authorization and Health have
// methods of the same name.
func methodName(fullMethod string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}
