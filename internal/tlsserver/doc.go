// Package tlsserver accepts TLS connections of clients.
//
// A [Store] loads a certificate, its key, the certificates of the CAs that sign client certificates, and a list of
// revoked certificates. It loads them again when the files change. New connections then use the new files; connections
// that are open are not affected. If new files are not valid, the previous ones stay in use.
//
// [Store.Listen] returns a listener that performs the handshakes of the connections of another listener. Its Accept
// method returns only connections whose handshake has succeeded, so that clients that do not complete their handshake
// use no resources of the caller. The handshakes of all listeners of a Store share these limits: a handshake must be
// completed within [HandshakeTimeout], at most [MaxHandshakes] are in progress, and only a part of the processors
// computes handshakes, so that other clients of the process are not delayed.
//
// The caller must call [Store.Watch] once, in a goroutine of its own, and must close each listener.
package tlsserver
