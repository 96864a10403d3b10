package grpcedge

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"

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

// metadataFinder returns a function that returns metadata of the filters before this one, by the namespace of the filter and
// a path with dots. A key that is the whole rest of a path takes precedence. Objects, lists and null have no value.
func metadataFinder(m *corev3.Metadata) func(namespace, path string) string {
	return func(namespace, path string) string {
		return textOf(lookUp(m.GetFilterMetadata()[namespace], path))
	}
}

// lookUp returns the value with a path in an object, or nil.
func lookUp(object *structpb.Struct, path string) *structpb.Value {
	if value, ok := object.GetFields()[path]; ok {
		return value
	}
	name, rest, nested := strings.Cut(path, ".")
	if !nested {
		return nil
	}
	return lookUp(object.GetFields()[name].GetStructValue(), rest)
}

func textOf(v *structpb.Value) string {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return kind.StringValue
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(kind.NumberValue, 'f', -1, 64)
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(kind.BoolValue)
	}
	return ""
}

func valueOf(line *corev3.HeaderValue) string {
	if raw := line.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return line.GetValue()
}
