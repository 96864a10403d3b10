package grpcedge

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/throttledhq/throttled/internal/tlsserver"
)

// transportCredentials are the credentials of a server whose listeners perform the handshakes of TLS. One server thus has
// connections with and without TLS, and the limits of handshakes are those of all ports.
type transportCredentials struct{}

// tlsInfo describes a connection with TLS to grpc-go, and has the name of its client.
type tlsInfo struct {
	credentials.TLSInfo
	user string // common name of the verified client certificate, or ""
}

// ServerHandshake returns the connection and its description.
func (transportCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured := tlsserver.Of(conn)
	if secured == nil {
		return insecure.NewCredentials().ServerHandshake(conn)
	}
	return conn, tlsInfo{credentials.TLSInfo{
		State:          secured.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, secured.User()}, nil
}

// userOf returns the common name of the verified client certificate of a connection, or "".
func userOf(info credentials.AuthInfo) string {
	secured, _ := info.(tlsInfo)
	return secured.user
}

// ClientHandshake returns an error, since these credentials are those of a server.
func (transportCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

// Info describes the protocol.
func (transportCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns the credentials, which have no state.
func (c transportCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing.
func (transportCredentials) OverrideServerName(string) error { return nil }
