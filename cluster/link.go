package cluster

import (
	"context"
	"net"

	"github.com/throttledhq/throttled/cluster/transport"
	"github.com/throttledhq/throttled/topology"
)

// Over returns Peers that communicate over a link.
func Over(l *transport.Link) Peers { return linked{l} }

type linked struct{ link *transport.Link }

func (l linked) Ask(ctx context.Context, to topology.Member, q Question) (Answer, error) {
	conn, err := l.link.Dial(ctx, to.ID, to.Raft, transport.Control)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = conn.Close() }() // the answer was read
	return askOver(ctx, conn, q)
}

func (l linked) Dial(ctx context.Context, to topology.Member) (net.Conn, error) {
	return l.link.Dial(ctx, to.ID, to.Raft, transport.Client)
}
