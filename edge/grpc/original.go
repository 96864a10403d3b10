package grpcedge

import (
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/throttledhq/throttled/edge/attributes"
)

// loopback is the address of clients that have connected to Envoy through a Unix socket: they are proxies on its host.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// addressOf returns the address from which Envoy has received a request. A request without an address is refused:
// otherwise, limits by address would not apply to it.
func addressOf(a *corev3.Address) (netip.Addr, error) {
	if a.GetPipe() != nil {
		return loopback, nil
	}
	text := a.GetSocketAddress().GetAddress()
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: the source of the request has no address", attributes.ErrGateway)
	}
	return ip.Unmap().WithZone(""), nil
}

// headersOf returns a function that returns the values of a header by its name in canonical form. Envoy sends headers in
// lower case: in a map, with the values of lines of the same name joined, or in a list.
func headersOf(h *auth.AttributeContext_HttpRequest) func(name string) []string {
	return func(name string) []string {
		if value, ok := h.GetHeaders()[strings.ToLower(name)]; ok {
			return []string{value}
		}
		var values []string
		for _, line := range h.GetHeaderMap().GetHeaders() {
			if strings.EqualFold(line.GetKey(), name) {
				values = append(values, valueOf(line))
			}
		}
		return values
	}
}

func valueOf(line *corev3.HeaderValue) string {
	if raw := line.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return line.GetValue()
}
