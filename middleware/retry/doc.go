// Package retry has a transport for HTTP clients that repeats requests which a server has limited. It waits as the server
// demands in Retry-After or RateLimit, and otherwise for a random time that grows exponentially, so that many clients do not
// repeat their requests at the same time.
//
// [Transport] repeats a request only if this is safe: the body can be sent again, and the server has not processed the
// request (status 429), or the request is idempotent (status 503). It does not repeat requests that failed without a response.
package retry
