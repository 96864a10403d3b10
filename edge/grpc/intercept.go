package grpcedge

import (
	"context"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// authenticate checks the password of a call before its message is received, so that clients without the password
// cannot make the server hold messages. Health checks need no password.
func (c *core) authenticate(ctx context.Context, info *tap.Info) (context.Context, error) {
	if strings.HasPrefix(info.FullMethodName, "/grpc.health.v1.Health/") {
		return ctx, nil
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Internal, "the address of the client is unknown")
	}
	if err := c.Access.Authenticate(p.Addr, password(info.Header.Get("authorization"))); err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "%v: send the password in the metadata of the call, as \"authorization: Bearer PASSWORD\"", err)
	}
	return ctx, nil
}

// password returns the password in the metadata "authorization". It returns nil if there is none, or more than one.
func password(values []string) []byte {
	if len(values) != 1 {
		return nil
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return []byte(strings.TrimLeft(rest, " "))
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
			c.Observe(path.Base(info.FullMethod), status.Code(err), time.Since(start))
		}
	}()
	return handler(ctx, req)
}
