package persistence

import "time"

const (
	workTime  = 200 * time.Microsecond // a background save pauses after this much work
	restShare = 2                      // length of a pause relative to the work before it
	longest   = 10 * time.Millisecond  // maximum length of a pause
	syncEvery = 4 << 20                // bytes between syncs; a single sync at the end would block the disk for a long time
)

// pacer limits a background save to about one third of the time. On a machine with few
// processors, the save would otherwise increase the latency of requests.
type pacer struct {
	hurry  <-chan struct{} // closed when the program waits for the save
	from   time.Time       // end of the last pause
	synced int64           // bytes of the file at the last sync
}

func newPacer(hurry <-chan struct{}) *pacer { return &pacer{hurry: hurry, from: time.Now()} }

// wrote syncs f if syncEvery bytes have been written since the last sync, and then calls
// step. bytes is the size of the file.
func (p *pacer) wrote(bytes int64, f File) error {
	if p == nil {
		return nil
	}
	if bytes-p.synced >= syncEvery {
		p.synced = bytes
		if err := f.Sync(); err != nil {
			return err
		}
	}
	p.step()
	return nil
}

// step pauses if workTime has elapsed since the last pause. A nil pacer never pauses.
func (p *pacer) step() {
	if p == nil {
		return
	}
	if worked := time.Since(p.from); worked >= workTime {
		select {
		case <-p.hurry:
		case <-time.After(min(restShare*worked, longest)):
		}
		p.from = time.Now()
	}
}
