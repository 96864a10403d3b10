// Package sidecar connects a sidecar to its upstream server.
//
// A sidecar is a throttled server that runs beside an application and holds no state: it sends the commands that need
// state to an upstream server, which is a standalone server or any node of a cluster.
//
// [Upstream] selects one of several addresses of the upstream. It sends a probe to the selected address every second,
// and immediately after [Upstream.Suspect]. If a probe fails, it connects to all addresses and selects the first one
// that answers. A node that follows names the leader, which is selected instead, and the leader names the other nodes, whose
// addresses are then used too. The address of a Sentinel stands for that of the leader. To package server, an Upstream is a topology.Cluster in which the selected address is the leader, so
// commands are forwarded as from a follower to the leader. The caller must call [Upstream.Run].
//
// [Engine] is the limiter.Engine of a sidecar. It decides the requests that its [Decider] decides, and returns
// limiter.ErrNotLeading for all others, which are then forwarded.
package sidecar
