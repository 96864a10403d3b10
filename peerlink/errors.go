package peerlink

import (
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// The errors of [Listen], besides those of the system. Configurations
// that make no sense give others.
var (
	// ErrInsecure is wrapped when an address is not loopback though there are to be no
	// certificates; by Dial, too.
	ErrInsecure = errors.New("without certificates every address must be loopback")
	// ErrNoCertificate is wrapped when there are to be certificates but no files are named.
	ErrNoCertificate = errors.New(`nodes need certificates, which "throttled certs" makes: name the files with raft-tls-cert, raft-tls-key and raft-tls-ca`)
	// ErrSerials is wrapped when a list of revoked certificates cannot be used.
	ErrSerials = errors.New("not a serial number; give one per line in hexadecimal digits")
)

// The errors of [Link.Dial], besides those of the network and the end of its context. A
// Link that is closed gives net.ErrClosed.
var (
	// ErrRefused is wrapped when the peer turned the stream down, with one of the others
	// if it said why.
	ErrRefused = errors.New("the peer refused")
	// ErrCertificate is wrapped when the certificate of the peer is not valid here, or
	// that of this node is not valid there or is for another name than it gave.
	ErrCertificate = errors.New("certificate not accepted")
	// ErrOtherCluster is wrapped when the peer is a node of another cluster.
	ErrOtherCluster = errors.New("nodes of different clusters")
	// ErrOtherNode is wrapped when the peer is another node of the cluster than was meant.
	ErrOtherNode = errors.New("not the node that was meant")
	// ErrRevoked is wrapped, with ErrCertificate, when the certificate of a node has been revoked.
	ErrRevoked = errors.New("certificate revoked")
	// ErrNotAllowed is wrapped when Raft or Client streams are not open to a node, as it is not in
	// the configuration of the cluster.
	ErrNotAllowed = errors.New("not allowed for this node")
	// ErrNotServed is wrapped when the peer does not take streams of this purpose.
	ErrNotServed = errors.New("streams of this purpose are not served")
	// ErrBusy is wrapped when the peer has as many streams as it takes.
	ErrBusy = errors.New("too many streams")
	// ErrVersion is wrapped when the peer speaks another version of the greeting.
	ErrVersion = errors.New("unknown version of the greeting")
	// ErrOtherRecovery is wrapped, in a [RecoveryError], when the peer belongs to a cluster of the same name that
	// "throttled recover" has formed anew without this node, or the reverse.
	ErrOtherRecovery = errors.New("the cluster was formed anew by throttled recover, without one of the two nodes: remove the data directory of the one that was not recovered, and add it under another id")
	// ErrOutdated is wrapped when another process has been started with the data of the node since.
	ErrOutdated = errors.New("the data directory of the node is an old copy, or another process has used it since")
	// ErrGreeting is wrapped when what the peer sent is no greeting at all.
	ErrGreeting = errors.New("not a greeting")
)

// RecoveryError is the error of Dial that wraps ErrOtherRecovery.
type RecoveryError struct {
	Node         string // the peer
	Ours, Theirs topology.Recovery
}

// Error names both.
func (e *RecoveryError) Error() string {
	return fmt.Sprintf("node %s has recovery %q, this node has %q: %v", e.Node, e.Theirs, e.Ours, ErrOtherRecovery)
}

// Unwrap returns ErrOtherRecovery.
func (e *RecoveryError) Unwrap() error { return ErrOtherRecovery }
