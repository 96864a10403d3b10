package edge

import (
	"net"

	"github.com/pires/go-proxyproto"
)

// withProxyHeaders returns a listener whose connections begin with a header of the PROXY protocol, which has the address of
// the client. Connections that do not come from a trusted proxy are refused, since they could have any address in it.
func (s *Server) withProxyHeaders(l net.Listener) net.Listener {
	return &proxyproto.Listener{Listener: l, ReadHeaderTimeout: headerTime, ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
		tcp, ok := o.Upstream.(*net.TCPAddr)
		if ok && s.proxies.Trusts(tcp.AddrPort().Addr().Unmap()) {
			return proxyproto.REQUIRE, nil
		}
		s.warn("proxy", "HTTP connection refused: it does not come from trusted-proxies, as http-proxy-protocol requires", "addr", o.Upstream)
		return proxyproto.REJECT, nil
	}}
}
