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
	"github.com/throttledhq/throttled/edge/httpauth"
)

// healthPrefix begins the names of the methods of health checks.
const healthPrefix = "/grpc.health.v1.Health/"

// admit returns an error unless the client may call a method, and observes the calls that it refuses. It is called before
// the message is received, so that clients without the password cannot make the server hold messages.
func (c *core) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	start := time.Now()
	ctx, err := c.authorize(ctx, info)
	if err != nil {
		c.observe(c.knownName(info.FullMethodName), err, start)
	}
	return ctx, err
}

// knownName returns the name of a method, or "none" if it is not served: clients could otherwise create any number of
// series of metrics.
func (c *core) knownName(fullMethod string) string {
	if !c.methods[fullMethod] {
		return "none"
	}
	return methodName(fullMethod)
}

// observe reports a call with its result and its start.
func (c *core) observe(method string, err error, start time.Time) {
	if c.Observe != nil {
		c.Observe(method, status.Code(err), time.Since(start))
	}
}

// authorize returns an error unless the client may call a method. Health checks need no permission.
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
	}
	values := info.Header.Get("authorization")
	if len(values) == 1 {
		if user, password, parsed := httpauth.Parse(values[0]); parsed {
			return c.authenticate(ctx, p.Addr, secret{user, password})
		}
	}
	if login, ok := c.Access.CertificateUser(userOf(p.AuthInfo)); ok {
		return withLogin(ctx, login), nil
	}
	if c.Access.RequiresPassword() {
		return nil, status.Error(codes.Unauthenticated, `a password is required: send it in the metadata "authorization: Bearer PASSWORD"`)
	}
	return ctx, nil
}

// secret is a password and the name of the user, or a token without a name.
type secret struct{ user, password string }

// equal reports whether s and other are the same, in a time that does not depend on the contents of passwords.
func (s secret) equal(other secret) bool {
	return s.user == other.user && httpauth.Equal(s.password, other.password)
}

// authenticate returns a context with the login of the call, or a status if the password is wrong.
func (c *core) authenticate(ctx context.Context, addr net.Addr, given secret) (context.Context, error) {
	users := c.Access.Users() // before the check: users that change meanwhile are another pointer
	known, ok := addr.(*clientAddr)
	if ok {
		if login, ok := known.knows(users, given); ok {
			return withLogin(ctx, login), nil
		}
	}
	login, err := c.Access.Authenticate(plainAddr(addr), []byte(given.user), []byte(given.password))
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	if ok {
		known.right.Store(&authenticated{users, given, login})
	}
	return withLogin(ctx, login), nil
}

// loginKey is the key of the login in the context of a call.
type loginKey struct{}

// withLogin adds a login to a context. That of the user "default" needs none.
func withLogin(ctx context.Context, login acl.Login) context.Context {
	if login.Name() == acl.DefaultName {
		return ctx
	}
	return context.WithValue(ctx, loginKey{}, login)
}

// loginOf returns the login of a call.
func loginOf(ctx context.Context) acl.Login {
	login, _ := ctx.Value(loginKey{}).(acl.Login)
	return login
}

// plainAddr returns the address of a clientAddr.
func plainAddr(addr net.Addr) net.Addr {
	if a, ok := addr.(*clientAddr); ok {
		return a.Addr
	}
	return addr
}

// intercept converts a panic to an error, and observes the call.
func (c *core) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error("a gRPC call panicked", "panic", p, "method", info.FullMethod, "stack", string(debug.Stack()))
			resp, err = nil, status.Error(codes.Internal, "internal error")
		}
		c.observe(methodName(info.FullMethod), err, start)
	}()
	return handler(ctx, req)
}

// methodName returns the name of a method with that of its service, without the package: Authorization and Health have
// methods of the same name.
func methodName(fullMethod string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}
