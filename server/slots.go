package server

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// slotCount is how many hash slots a Redis Cluster has. Here the leader has all of them.
const slotCount = 16384

// crcTable is for CRC16 as XMODEM has it: polynomial 0x1021, nothing reflected.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

func crc16(b []byte) (crc uint16) {
	for _, c := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return crc
}

// slotOf returns the slot of a key: that of what stands between its first braces, if anything
// does.
func slotOf(key []byte) int {
	if from := bytes.IndexByte(key, '{'); from >= 0 {
		if n := bytes.IndexByte(key[from+1:], '}'); n > 0 {
			key = key[from+1 : from+1+n]
		}
	}
	return int(crc16(key)) % slotCount
}

// clusterNodeID returns the 40 hexadecimal digits by which Redis Cluster and Sentinel know a node.
func clusterNodeID(cluster, node string) string {
	sum := sha1.Sum([]byte(cluster + "/" + node))
	return hex.EncodeToString(sum[:])
}

// inSlots reports whether clients of Redis Cluster can be told of a member.
func inSlots(m *topology.Member) bool { return m != nil && m.Host != "" && m.ClusterPort != 0 }

// errMoved sends a client to the node that has the slot of a key. An IPv6 address has no
// brackets: clients split at the last colon.
func errMoved(key []byte, to *topology.Member) replyError {
	return replyError(fmt.Sprintf("MOVED %d %s:%d", slotOf(key), to.Host, to.ClusterPort))
}

// redirect answers calls that have a key with the address of the leader, if clients can reach it.
func redirect(leader *topology.Member, list []call) {
	if !inSlots(leader) {
		return
	}
	for i := range list {
		if e := &list[i]; !e.done && e.key() != nil {
			e.fail(errMoved(e.key(), leader))
		}
	}
}

// redirected returns where a command is to be sent that a transaction cannot queue, as another node leads. It returns
// nil if none does, as in a hand-over: EXEC waits for the next leader.
func (c *client) redirected(cmd *command, args [][]byte) error {
	view := c.srv.cluster.View()
	leader := view.Find(view.Leader)
	switch {
	case view.Leader == "" || view.Leader == view.Self:
		return nil
	case inSlots(leader):
		return errMoved(cmd.keysOf(args)[0], leader)
	}
	return errClusterDown
}
