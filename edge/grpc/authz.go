package grpcedge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/edge/headers"
	"github.com/throttledhq/throttled/tracing"
)

// authorization is the external authorization service: it admits requests that are within their limits.
type authorization struct {
	auth.UnimplementedAuthorizationServer
	*core
}

// Check decides a request that a gateway has received. The error is a status if the request cannot be decided;
// failure_mode_allow of Envoy then determines the result.
func (s *authorization) Check(ctx context.Context, req *auth.CheckRequest) (*auth.CheckResponse, error) {
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	r, err := s.newRequest(req.GetAttributes())
	switch {
	case errors.Is(err, attributes.ErrRequest):
		return invalidRequest(err), nil
	case err != nil:
		s.warn("authz", "authorization request not decided", "error", err)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var results [1]decision.Result
	if err := s.Checker.Check(loginOf(ctx), []decision.Request{r}, results[:]); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	result := &results[0]
	if result.Err != nil {
		s.warn("authz", "authorization request not decided", "error", result.Err, "domain", clip(r.Domain))
		return nil, statusOf(result.Err)
	}
	if s.Trace != nil {
		tracing.Decided(ctx, r.Domain, result.Word(), result.Name)
	}
	fields := s.format.Append(nil, result, time.Now())
	if result.Limited {
		return refused(result, fields), nil
	}
	return admitted(result, fields), nil
}

// Names of the context extensions, which the configuration of a route sets.
const (
	domainExtension = "domain"
	costExtension   = "cost"
)

// newRequest returns the CL.CHECK of a request. The error wraps attributes.ErrRequest or attributes.ErrGateway.
func (s *authorization) newRequest(a *auth.AttributeContext) (decision.Request, error) {
	r := decision.Request{Domain: s.Options.EdgeDomain, Cost: 1}
	if domain := a.GetContextExtensions()[domainExtension]; domain != "" {
		r.Domain = domain
	}
	if r.Domain == "" {
		return r, fmt.Errorf("%w: the request has no domain; set context_extensions of the route to {domain: NAME}, or set the option edge-domain", attributes.ErrGateway)
	}
	if text := a.GetContextExtensions()[costExtension]; text != "" {
		cost, err := strconv.ParseInt(text, 10, 64)
		if err != nil || cost < 1 {
			return r, fmt.Errorf("%w: the context extension cost must be an integer of at least 1, not %q", attributes.ErrGateway, clip(text))
		}
		r.Cost = cost
	}
	original, err := s.original(a)
	if err != nil {
		return r, err
	}
	if a.GetRequest().GetHttp() == nil { // of the network filter: a connection has an address only
		r.Pairs = []string{"ip", original.IP.String()}
		return r, nil
	}
	if r.Pairs, err = s.sources.Append(make([]string, 0, 16), original); errors.Is(err, attributes.ErrGateway) {
		// A client can repeat a header if the gateway does not replace it. After an error, Envoy could admit the request.
		s.warn("authz", "authorization request refused: Envoy is not configured as documented", "error", err)
		err = fmt.Errorf("%w: %w", attributes.ErrRequest, err)
	}
	return r, err
}

// original returns the request that the gateway has received.
func (s *authorization) original(a *auth.AttributeContext) (*attributes.Request, error) {
	peer, err := addressOf(a.GetSource().GetAddress())
	if err != nil {
		return nil, err
	}
	h := a.GetRequest().GetHttp()
	find := headersOf(h)
	return &attributes.Request{
		Method: h.GetMethod(),
		Target: h.GetPath(),
		Host:   h.GetHost(),
		IP:     s.proxies.Client(s.forwarded, peer, find(s.forwarded)),
		Header: find,

		Metadata: metadataFinder(a.GetMetadataContext()),
	}, nil
}

// admitted returns the response to a request that the limits admit.
func admitted(r *decision.Result, fields []headers.Field) *auth.CheckResponse {
	ok := &auth.OkHttpResponse{ResponseHeadersToAdd: responseHeaders(r, fields)}
	return &auth.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: ok},
	}
}

// refused returns the response to a request that the limits refuse.
func refused(r *decision.Result, fields []headers.Field) *auth.CheckResponse {
	const code = http.StatusTooManyRequests
	return denied(code, responseHeaders(r, fields), headers.AppendRefusal(nil, code, r))
}

// invalidRequest returns the response to a request with invalid data of the client.
func invalidRequest(err error) *auth.CheckResponse {
	p := headers.Problem{Type: headers.TypeBlank, Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest, Error: "invalid_request", Message: err.Error()}
	return denied(p.Status, []*corev3.HeaderValueOption{option(decisionHeader, "error")}, p.Append(nil))
}

func denied(code int, fields []*corev3.HeaderValueOption, body []byte) *auth.CheckResponse {
	d := &auth.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(code)},
		Headers: append(fields, option("Content-Type", headers.ContentType), option("Cache-Control", "no-store")),
		Body:    string(body),
	}
	return &auth.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: d},
	}
}

// decisionHeader is the header with the decision in a word.
const decisionHeader = "X-RateLimit-Decision"

func responseHeaders(r *decision.Result, fields []headers.Field) []*corev3.HeaderValueOption {
	list := make([]*corev3.HeaderValueOption, 0, len(fields)+3)
	for _, f := range fields {
		list = append(list, option(f.Name, f.Value))
	}
	return append(list, option(decisionHeader, r.Word()))
}

// option returns a header that replaces that of the upstream.
func option(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
