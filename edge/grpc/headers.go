package grpcedge

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/throttledhq/throttled/edge/headers"
)

// addHeaders adds the headers of envoyproxy/ratelimit, and those of draft-ietf-httpapi-ratelimit-headers-11. They describe
// the descriptor that is closest to its limit. If the request is refused, Retry-After is added, unless no wait helps.
func addHeaders(resp *pb.RateLimitResponse, answers []answer) {
	a := closest(answers)
	if a == nil {
		return
	}
	list := append(resp.ResponseHeadersToAdd,
		header("RateLimit-Limit", int64(a.limit.RequestsPerUnit)),
		header("RateLimit-Remaining", int64(a.status.LimitRemaining)),
		header("RateLimit-Reset", a.reset.Seconds),
	)
	for _, f := range (headers.Format{RateLimit: true}).Append(nil, a.result, time.Time{}) {
		if f.Name != "Retry-After" || resp.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
			list = append(list, &corev3.HeaderValue{Key: f.Name, Value: f.Value})
		}
	}
	resp.ResponseHeadersToAdd = list
}

func header(key string, value int64) *corev3.HeaderValue {
	return &corev3.HeaderValue{Key: key, Value: strconv.FormatInt(value, 10)}
}

// closest returns the answer with the least remaining units, but the last one that is over a limit without quota mode,
// if there is one: the service selects these. It returns nil if no descriptor has a limit.
func closest(answers []answer) *answer {
	var at *answer
	remaining := uint32(math.MaxUint32)
	for i := range answers {
		a := &answers[i]
		if a.status.CurrentLimit == nil {
			continue
		}
		if a.status.LimitRemaining < remaining {
			at, remaining = a, a.status.LimitRemaining
		}
		if isOverLimit(a) && !a.special.limit.Envoy.QuotaMode {
			at, remaining = a, 0
		}
	}
	return at
}
