// Package headers converts a decision to the headers and the body of an HTTP response.
//
// A [Format] selects the headers: RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11, X-RateLimit-*,
// or both. A refusal also has Retry-After, unless no wait helps. [AppendRefusal] writes the body of a refusal, and
// [Problem] that of an error, as application/problem+json (RFC 9457).
//
// # Policies
//
// Each amount of a limit is a policy. Its name is that of the limit, and "default" for the default of the domain. Further
// amounts of the same limit have their period in addition, such as "login" and "login:1d"; no limit can have such a name.
// Shadow limits, unlimited amounts, and amounts that were not decided because there was no leader, or because the upstream
// of a sidecar was away, are no policies.
//
// The parameter t of RateLimit is the effective window, for which the remaining units must suffice: after a refusal,
// the time until the request can succeed, as in Retry-After; otherwise, the time until all units are restored.
// X-RateLimit-Reset is always the latter.
package headers
