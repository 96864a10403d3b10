package server

import (
	"context"
	"strings"
	"time"

	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/topology"
)

// sharedHeartbeat is the name of the heartbeat setting. It is the only setting that all nodes of a cluster share.
const sharedHeartbeat = "raft-heartbeat"

// cmdMembersSet implements CL.CLUSTER SET, which changes a setting of the whole cluster.
func cmdMembersSet(c *client, args [][]byte) error {
	if c.srv.cluster == nil {
		return errNotClustered
	}
	if !strings.EqualFold(string(args[2]), sharedHeartbeat) {
		return replyError("ERR unknown setting " + quote(args[2]) + " of the cluster: use " + sharedHeartbeat)
	}
	ms, ok := resp.ParseInt(args[3])
	if !ok || ms < 100 || ms > 5000 {
		return errInvalid(sharedHeartbeat, args[3], "an integer from 100 to 5000, in milliseconds")
	}
	return c.administer(func(ctx context.Context, _ *topology.View) error {
		return c.srv.cluster.SetHeartbeat(ctx, time.Duration(ms)*time.Millisecond)
	})
}
