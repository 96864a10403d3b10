package grpclimit

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttledhq/throttled/middleware"
)

// RequestFunc returns the request for the limiter of a call of a method such as "/shop.Orders/Create". The zero Request
// exempts the call.
type RequestFunc func(ctx context.Context, method string) middleware.Request

// Rules returns a RequestFunc for calls that are decided by the rules of the server. The attributes are method, which is
// always POST, path (the method of gRPC) and ip, as for HTTP, and those that the functions return.
func Rules(domain string, attributes ...func(ctx context.Context) middleware.Attribute) RequestFunc {
	return func(ctx context.Context, method string) middleware.Request {
		ip := ""
		if addr := PeerAddr(ctx); addr.IsValid() {
			ip = addr.String()
		}
		all := append(make([]middleware.Attribute, 0, 3+len(attributes)), middleware.Attribute{Name: "method", Value: "POST"},
			middleware.Attribute{Name: "path", Value: method}, middleware.Attribute{Name: "ip", Value: ip})
		for _, attribute := range attributes {
			all = append(all, attribute(ctx))
		}
		return middleware.Request{Domain: domain, Attributes: all}
	}
}

// PerPeer returns a RequestFunc that limits each peer address over all methods. IPv6 addresses count by their /64 network.
func PerPeer(limits ...middleware.Limit) RequestFunc {
	return func(ctx context.Context, _ string) middleware.Request {
		peer := (middleware.Proxies{}).KeyOf(PeerAddr(ctx))
		keyed := make([]middleware.Limit, len(limits))
		for i, limit := range limits {
			keyed[i] = limit.WithKey("grpc", "ip", peer)
		}
		return middleware.Request{Limits: keyed}
	}
}

// PeerAddr returns the address of the peer of a call. It is not valid for peers without an IP address.
func PeerAddr(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap().WithZone("")
}

// Unary returns an interceptor that limits unary calls.
func Unary(l *middleware.Limiter, request RequestFunc) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := admit(ctx, l, request(ctx, info.FullMethod)); err != nil {
			return nil, err
		}
		return next(ctx, message)
	}
}

// Stream returns an interceptor that limits the calls of streaming methods. The messages of an admitted call are not limited.
func Stream(l *middleware.Limiter, request RequestFunc) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := admit(stream.Context(), l, request(stream.Context(), info.FullMethod)); err != nil {
			return err
		}
		return next(srv, stream)
	}
}

// admit returns a status error unless the limiter admits a request.
func admit(ctx context.Context, l *middleware.Limiter, r middleware.Request) error {
	d, err := l.Allow(ctx, r)
	if err == nil {
		err = d.AwaitTurn(ctx)
	}
	switch {
	case errors.Is(err, middleware.ErrDeadline):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case err != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	if d.Admitted {
		return nil
	}
	pushback := int64(-1) // the client must not retry
	if d.RetryAfter >= 0 {
		pushback = int64(math.Ceil(float64(d.RetryAfter) / float64(time.Millisecond)))
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(pushback, 10))) // a hint only
	return refusal(&d).Err()
}

// refusal returns the status for a refused call.
func refusal(d *middleware.Decision) *status.Status {
	s := status.New(codes.ResourceExhausted, "too many requests: retry later")
	switch {
	case d.Unavailable():
		s = status.New(codes.Unavailable, "the request could not be checked: retry later")
	case d.RetryAfter < 0:
		return status.New(codes.ResourceExhausted, "the request exceeds the whole limit: a retry does not help")
	}
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	if err != nil {
		return s // not reached: RetryInfo can be encoded
	}
	return detailed
}
