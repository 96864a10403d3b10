package grpcedge

import (
	"math"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// addHeaders adds the headers of envoyproxy/ratelimit, which describe the descriptor that is closest to its limit.
func (p *plan) addHeaders(resp *pb.RateLimitResponse, answers []answer) {
	a := closest(answers)
	if a == nil {
		return
	}
	resp.ResponseHeadersToAdd = append(resp.ResponseHeadersToAdd,
		header("RateLimit-Limit", int64(a.limit.RequestsPerUnit)),
		header("RateLimit-Remaining", int64(a.status.LimitRemaining)),
		header("RateLimit-Reset", a.reset.Seconds),
	)
	if resp.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		resp.ResponseHeadersToAdd = append(resp.ResponseHeadersToAdd, header("Retry-After", max(1, a.reset.Seconds)))
	}
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
