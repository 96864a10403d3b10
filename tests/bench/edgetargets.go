package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/throttledhq/throttled/tests/bench/loadgen"
)

// edgeRules limits the requests of all measurements of edges. The limit of domain rls is as an import of ratelimitConfig
// has it. No request is refused, so that all targets do equal work.
const edgeRules = `
version: 1
domain: edge
limits:
  ip: {per: [ip], allow: 1000000/s burst 1000000000}
  user: {when: {path: /api/*}, per: [user], allow: 1000000/s burst 1000000000}
---
version: 1
domain: rls
semantics: envoy
limits:
  user: {when: {descriptor: user}, per: [user], allow: 4000000000 per hour, algorithm: fixed}
`

// target is a kind of request to one server.
type target struct {
	name string
	load loadgen.Load
}

const (
	edgeKeys    = 100_000
	edgeConns   = 50
	edgeStreams = 16 // concurrent calls of one of the gRPC connections
	gatewayConn = 4  // gRPC connections; a gateway has one for each of its threads
	edgeTime    = 5 * time.Second
	edgeWarmup  = time.Second
)

// traefikCheck is a request as Traefik's forwardAuth sends it, with the headers of a browser.
const traefikCheck = "GET /check/traefik/edge HTTP/1.1\r\n" +
	"Host: 127.0.0.1\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: application/json\r\n" +
	"Accept-Encoding: gzip\r\n" +
	"X-Forwarded-For: 192.0.2.7\r\n" +
	"X-Forwarded-Host: shop.example\r\n" +
	"X-Forwarded-Method: GET\r\n" +
	"X-Forwarded-Port: 443\r\n" +
	"X-Forwarded-Proto: https\r\n" +
	"X-Forwarded-Server: gateway\r\n" +
	"X-Forwarded-Uri: /api/search?q=shoes\r\n" +
	"X-User: u" + loadgen.Placeholder + "\r\n\r\n"

// throttleBody is the body of a throttle request, which is the same for throttled and throttlecrab.
const throttleBody = `{"key":"k` + loadgen.Placeholder + `","max_burst":1000000,"count_per_period":1000000,"period":60,"quantity":1}`

func throttleCall(path string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(throttleBody), throttleBody)
}

// httpTarget returns a target whose requests have the given text.
func httpTarget(name, addr, request string) target {
	template, err := loadgen.NewTemplate(request)
	if err != nil {
		panic(err) // the request is a constant
	}
	return target{name, loadgen.Load{
		Addr: addr, Conns: edgeConns, Streams: 1, Keys: edgeKeys,
		Protocol: func() loadgen.Protocol { return loadgen.NewHTTP(template) },
	}}
}

// grpcTarget returns a target that calls a method with the given message.
func grpcTarget(name, addr, method, message string) target {
	template, err := loadgen.NewTemplate(message)
	if err != nil {
		panic(err) // the message is a constant
	}
	return target{name, loadgen.Load{
		Addr: addr, Conns: gatewayConn, Streams: edgeStreams, Keys: edgeKeys,
		Protocol: func() loadgen.Protocol { return loadgen.NewGRPC(method, template) },
	}}
}

const (
	rlsMethod  = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	crabMethod = "/throttlecrab.RateLimiter/Throttle"
)

// field encodes a field of a protobuf message that has bytes as its value. The bytes must be shorter than 128.
func field(number int, value string) string {
	return string([]byte{byte(number<<3 | 2), byte(len(value))}) + value
}

// number encodes a field of a protobuf message that has a positive integer as its value.
func number(number int, value uint64) string {
	var b strings.Builder
	b.WriteByte(byte(number << 3))
	for ; value >= 0x80; value >>= 7 {
		b.WriteByte(byte(value) | 0x80)
	}
	b.WriteByte(byte(value))
	return b.String()
}

// rlsMessage is a RateLimitRequest with one descriptor of one entry.
var rlsMessage = field(1, "rls") + field(2, field(1, field(1, "user")+field(2, "u"+loadgen.Placeholder)))

// crabMessage is a ThrottleRequest of throttlecrab with the limit of throttleBody.
var crabMessage = field(1, "k"+loadgen.Placeholder) + number(2, 1_000_000) + number(3, 1_000_000) + number(4, 60) + number(5, 1)

// run measures the target once. A failed request is an error, since the figures of failures are meaningless.
func (t target) run(rate float64, lasting time.Duration) (*loadgen.Result, error) {
	load := t.load
	load.Rate, load.Warmup, load.Duration = rate, edgeWarmup, lasting
	r, err := loadgen.Run(load)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", t.name, err)
	case r.Failed > 0:
		return nil, fmt.Errorf("%s: %d of %d requests failed; first: %s", t.name, r.Failed, r.Failed+r.Admitted+r.Refused, r.Failure)
	case r.Admitted == 0 || r.Refused > 0:
		return nil, fmt.Errorf("%s: %d requests were admitted and %d refused, want all admitted", t.name, r.Admitted, r.Refused)
	}
	return r, nil
}
