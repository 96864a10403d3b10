package transport

import (
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// The errors of [Listen]. Its other errors come from the system, or describe an invalid configuration.
var (
	// ErrInsecure is wrapped, also by Dial, if certificates are disabled and an address is not
	// loopback.
	ErrInsecure = errors.New("without certificates all addresses must be loopback: set raft-tls-cert, raft-tls-key and raft-tls-ca to use other addresses")
	// ErrFiles is wrapped if a file of certificates cannot be read or parsed. It is not wrapped if the files are well-formed, but
	// the certificate is not valid for this node now, or does not match its key.
	ErrFiles = errors.New("load certificates")
	// ErrNoCertificate is wrapped if certificates are enabled but no files are configured.
	ErrNoCertificate = errors.New(`no certificates: create them with "throttled certs", and set raft-tls-cert, raft-tls-key and raft-tls-ca`)
)

// The errors of [Link.Dial]. Its other errors come from the network, or from the context of the call. A
// closed Link returns net.ErrClosed.
var (
	// ErrRefused is wrapped if the peer refused the stream. If the peer sent a reason, one
	// of the errors below is wrapped as well.
	ErrRefused = errors.New("the peer refused the stream")
	// ErrCertificate is wrapped if this node rejects the certificate of the peer, or if the
	// peer rejects the certificate of this node. A certificate for a different name is rejected too.
	ErrCertificate = errors.New("certificate not accepted")
	// ErrOtherCluster is wrapped if the peer is a node of a different cluster.
	ErrOtherCluster = errors.New("wrong cluster")
	// ErrOtherNode is wrapped if the peer is not the intended node of the cluster.
	ErrOtherNode = errors.New("wrong node")
	// ErrRevoked is wrapped, with ErrCertificate, if the certificate of a node is revoked.
	ErrRevoked = errors.New("certificate revoked")
	// ErrNotAllowed is wrapped if a node may not have Raft or Client streams, because it is not in
	// the configuration of the cluster.
	ErrNotAllowed = errors.New("streams of this purpose are not allowed for the node")
	// ErrNotServed is wrapped if the purpose does not exist, or if the peer does not accept streams of
	// this purpose.
	ErrNotServed = errors.New("streams of this purpose are not accepted")
	// ErrBusy is wrapped if the peer has reached its maximum number of streams.
	ErrBusy = errors.New("too many streams")
	// ErrVersion is wrapped if the peer uses a different version of the greeting.
	ErrVersion = errors.New("unknown version of the greeting")
	// ErrOtherRecovery is wrapped, in a [RecoveryError], if "throttled recover" has
	// recovered the cluster of the peer without this node, or the cluster of this node
	// without the peer.
	ErrOtherRecovery = errors.New("the cluster was recovered by throttled recover without one of the two nodes: remove the data directory of the node that was not recovered, and add it under another id")
	// ErrOutdated is wrapped if the peer has a record of newer data of this node, or this node has a record
	// of newer data of the peer. See [Link.SetCurrent].
	ErrOutdated = errors.New("the data directory of the node is an old copy, or another process has used it since")
	// ErrGreeting is wrapped if the data sent by the peer is not a greeting.
	ErrGreeting = errors.New("not a greeting")
)

// RecoveryError is the error of Dial that wraps ErrOtherRecovery.
type RecoveryError struct {
	Node         string // the peer
	Ours, Theirs topology.Recovery
}

// Error returns a text with the recoveries of both nodes.
func (e *RecoveryError) Error() string {
	return fmt.Sprintf("node %s has recovery %q, this node has %q: %v", e.Node, e.Theirs, e.Ours, ErrOtherRecovery)
}

// Unwrap returns ErrOtherRecovery.
func (e *RecoveryError) Unwrap() error { return ErrOtherRecovery }
