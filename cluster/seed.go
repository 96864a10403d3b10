package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/throttledhq/throttled/persistence"
)

// Seed describes the first snapshot of a new cluster whose keys come from a backup.
type Seed struct {
	Cluster string           // id of the new cluster
	Info    persistence.Info // of the backup
	Records io.Reader        // the backup, from its first byte
}

// The position of the first snapshot in the log of a new cluster.
const (
	SeedIndex = 1
	SeedTerm  = 1
)

// WriteSeed writes the first snapshot of a cluster in the format of snapshots of Raft. The same backup makes the same
// snapshot, so each node of the new cluster can make it from a copy of the file. Log time continues from the end of the
// backup, plus the time by which the wall clock has advanced since then.
//
// The caller must have verified the backup.
func WriteSeed(w io.Writer, s Seed) error {
	took := time.Duration(s.Info.Ended - s.Info.Begun)
	b, err := json.Marshal(head{
		Version: snapshotVersion, Cluster: s.Cluster, Index: SeedIndex, Term: SeedTerm,
		Time: s.Info.Ended, Wall: s.Info.Created.Add(took).UnixNano(),
	})
	if err != nil {
		return fmt.Errorf("write the first snapshot: %w", err)
	}
	for _, part := range [][]byte{lengthOf(len(b)), b} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write the first snapshot: %w", err)
		}
	}
	if _, err := io.Copy(w, s.Records); err != nil {
		return fmt.Errorf("write the first snapshot: %w", err)
	}
	return nil
}
