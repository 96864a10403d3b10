package server

import (
	"bytes"
	"crypto/sha1" // #nosec G505 -- identifiers for Redis Cluster, which protect nothing
	"encoding/hex"
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// slotCount is the number of hash slots of a Redis Cluster. In this server, the leader serves all slots.
const slotCount = 16384

// crcTable is the table of CRC-16/XMODEM: polynomial 0x1021, not reflected.
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

// slotOf returns the hash slot of a key. If the key has a nonempty hash tag, which is the text between the first { and
// the next }, only the hash tag is hashed.
func slotOf(key []byte) int {
	if from := bytes.IndexByte(key, '{'); from >= 0 {
		if n := bytes.IndexByte(key[from+1:], '}'); n > 0 {
			key = key[from+1 : from+1+n]
		}
	}
	return int(crc16(key)) % slotCount
}

// clusterNodeID returns the node id that Redis Cluster and Sentinel clients see. It consists of 40 hexadecimal digits.
func clusterNodeID(cluster, node string) string {
	sum := sha1.Sum([]byte(cluster + "/" + node)) // #nosec G401 -- identifiers for Redis Cluster, which protect nothing
	return hex.EncodeToString(sum[:])
}

// inSlots reports whether a member has announced an address for clients of Redis Cluster.
func inSlots(m *topology.Member) bool {
	return m != nil && m.Host != "" && m.Ports(false).Cluster != 0
}

// errMoved returns the error that redirects a client, with TLS if secure is set, to the node that serves the slot of a key.
// IPv6 addresses have no brackets, since clients split the address at the last colon.
func errMoved(key []byte, to *topology.Member, secure bool) replyError {
	return replyError(fmt.Sprintf("MOVED %d %s:%d", slotOf(key), to.Host, to.Ports(secure).Cluster))
}

// redirect fails each pending call that has a key. The error is MOVED with the address of the leader. It does nothing
// if the leader's address is unknown.
func redirect(leader *topology.Member, list []call, secure bool) {
	if !inSlots(leader) {
		return
	}
	for i := range list {
		if e := &list[i]; !e.done && e.key() != nil {
			e.fail(errMoved(e.key(), leader, secure))
		}
	}
}

// redirected returns the error for a command that cannot be queued in a transaction because a different node is the
// leader. It returns nil if this node is the leader. It also returns nil if there is no leader, for example during a
// hand-over. The command can then be queued, because EXEC waits for the next leader.
func redirected(view *topology.View, cmd *command, args [][]byte, secure bool) error {
	leader := view.Find(view.Leader)
	switch {
	case view.Leader == "" || view.Leader == view.Self:
		return nil
	case inSlots(leader):
		return errMoved(cmd.keysOf(args)[0], leader, secure)
	}
	return errClusterDown
}
