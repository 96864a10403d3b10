package persistence

import "time"

const (
	workTime  = 200 * time.Microsecond // after which a save in the background rests
	restShare = 2                      // a rest takes so many times as long as the work before it
	longest   = 10 * time.Millisecond  // a rest, however long the work has taken
	syncEvery = 4 << 20                // bytes: a disk that gets all at the end is busy with it for long
)

// pacer makes a save in the background leave most of the time to those who are served: on a
// machine with few processors their latency would be that of the save otherwise.
type pacer struct {
	hurry  <-chan struct{} // closed when the program waits for the save, to end
	from   time.Time       // of the work since the last rest
	synced int64           // bytes of the file
}

func newPacer(hurry <-chan struct{}) *pacer { return &pacer{hurry: hurry, from: time.Now()} }

// wrote is step after so many bytes have been written to a file.
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

// step rests if there has been enough work since the last rest. A nil pacer never rests.
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
