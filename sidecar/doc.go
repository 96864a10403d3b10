// Package sidecar connects a sidecar to its upstream server.
//
// A sidecar is a throttled server that runs beside an application. It decides requests with units that it has leased from an
// upstream server, and sends the other commands that need keys to the upstream, which is a standalone server or any node of a
// cluster.
//
// [Upstream] selects one of several addresses of the upstream. It sends a probe to the selected address every 0.5 to 1 s,
// and immediately after [Upstream.Suspect]. If a probe fails, it connects to all addresses and selects the first one
// that answers. The reply of a follower to a probe contains the address of the leader, which is selected instead. The reply
// of the leader contains the addresses of the other nodes, which are then used too. The address of a Sentinel is replaced by
// that of the leader. For package server, an Upstream is a topology.Cluster whose leader has the selected address, so
// commands are forwarded as from a follower to the leader. The caller must call [Upstream.Run].
//
// [Engine] is the limiter.Engine of a sidecar. It decides the requests that its [Decider] decides, and returns
// limiter.ErrNotLeading for all others, which are then forwarded.
package sidecar
