// Package http1 serves HTTP/1.1 in front of an http.Server, with the same handler and less CPU time.
//
// Most requests that a rate limiter receives are short and sent by gateways that keep their connections open. A [Server]
// reads such a request with one system call, calls the handler, and writes the response with another. It answers only
// requests whose framing has one meaning for every implementation: a complete request of HTTP/1.1 that fits into the
// buffer, exactly one Host, at most one Content-Length, and none of the fields that change how a connection is read
// (Transfer-Encoding, Expect, Upgrade, Trailer, and Connection other than keep-alive). If a request differs in
// any of these points, the http.Server takes over its connection until the end, with all bytes that have not been answered,
// so that net/http serves all unusual and malformed requests. A fuzz test checks that both parse accepted requests
// alike.
//
// Differences from net/http that handlers must observe: the request, its header and its body are reused when the handler
// returns, although their strings are not; the response is sent when the handler returns, so that there is no Flusher
// and no Hijacker; the context of a request is that of its connection, and is not canceled when the client disconnects.
//
// On systems other than Linux, all connections are handed over.
package http1
