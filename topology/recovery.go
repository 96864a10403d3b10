package topology

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Recovery identifies the last recovery of a cluster. A cluster that has lost its majority is recovered with
// "throttled recover". A Recovery consists of the number of recoveries so far, a hyphen, and 16 hexadecimal digits.
// It is empty for a cluster that was never recovered. Nodes with different recoveries do not communicate: they belong
// to different clusters with the same name.
type Recovery string

// MaxRecovery is the length of the longest Recovery, in bytes.
const MaxRecovery = 20 + 1 + 16

// Next returns the recovery that follows r. The parameters are the name of the cluster, and its members after the new
// recovery. The result depends only on r and the parameters, and not on the order of members.
func (r Recovery) Next(cluster string, members []Member) Recovery {
	sorted := slices.SortedFunc(slices.Values(members), func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	text := fmt.Sprintf("%q %q", cluster, r)
	for _, m := range sorted {
		text += fmt.Sprintf(" %q %q", m.ID, m.Raft)
	}
	sum := sha256.Sum256([]byte(text))
	return Recovery(fmt.Sprintf("%d-%x", r.Number()+1, sum[:8]))
}

// Number returns the number of recoveries. It returns 0 if r is empty or does not begin with a number.
func (r Recovery) Number() uint64 {
	head, _, _ := strings.Cut(string(r), "-")
	n, err := strconv.ParseUint(head, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Valid reports whether r is empty or has the format that is described at Recovery.
func (r Recovery) Valid() bool {
	head, sum, _ := strings.Cut(string(r), "-")
	return r == "" || r.Number() > 0 && head == strconv.FormatUint(r.Number(), 10) &&
		len(sum) == 16 && strings.Trim(sum, "0123456789abcdef") == ""
}
