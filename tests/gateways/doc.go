// Package gatewaystests runs the configurations in examples/ with the real gateways (nginx, HAProxy, Caddy, Envoy and
// Traefik), between real clients, the built server, and an application that records its requests.
//
// The tests change only ports in a configuration, and activate lines that end in a comment such as "# fail closed" (see
// variant). "make gateways" installs the gateways and runs all tests; "make test" runs those of nginx, HAProxy, Caddy and
// Envoy.
//
// Deadlines of the configurations are 50 ms. Tests of decisions replace them with a minute, so that they pass on a busy
// machine, which answers some requests by the policy for outages otherwise.
package gatewaystests
