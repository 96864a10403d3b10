package persistence

import "time"

const (
	workTime  = 200 * time.Microsecond // a background save pauses after it has worked for this time
	restShare = 2                      // length of a pause, as a multiple of the time worked before it
	maxPause  = 10 * time.Millisecond  // maximum length of a pause
	syncEvery = 4 << 20                // bytes between syncs; a single sync at the end would block the disk for a long time
)

// pacer makes a background save pause, so that it works for about one third of the time. On a
// machine with few processors, the save would otherwise increase the latency of requests.
type pacer struct {
	hurry   <-chan struct{} // closed when the program waits for the save
	resumed time.Time       // end of the last pause
	synced  int64           // bytes of the file at the last sync
}

func newPacer(hurry <-chan struct{}) *pacer { return &pacer{hurry: hurry, resumed: time.Now()} }

// wrote syncs f if syncEvery bytes have been written since the last sync, and then calls
// step. The argument bytes is the present size of the file. A nil pacer does nothing.
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
	if worked := time.Since(p.resumed); worked >= workTime {
		select {
		case <-p.hurry:
		case <-time.After(min(restShare*worked, maxPause)):
		}
		p.resumed = time.Now()
	}
}
