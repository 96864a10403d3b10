package server

import "time"

const (
	// sliceTime is the length of a time slice, after which a client that has more commands waits until clients whose commands
	// have arrived meanwhile run. Pipelines of 100 commands take less.
	sliceTime = 100 * time.Microsecond
	// clockEvery is the number of commands from one reading of the clock to the next. Shorter pipelines do not read it.
	clockEvery = 16
)

// timeSlice measures how long a client runs commands without a wait. Only the goroutine that runs the commands of the
// client may use it.
type timeSlice struct {
	commands int           // since the last wait other than yield
	began    time.Duration // uptime at which the slice began: the first reading of the clock, or the end of yield; 0 before it
	long     bool          // the client has used up a slice: it is counted in pollQueue.long
}

// due counts a command that is about to run, and reports whether the caller must call over.
func (t *timeSlice) due() bool {
	t.commands++
	return t.commands%clockEvery == 0
}

// over reports whether the slice has lasted longer than sliceTime. The parameter now is the uptime.
func (t *timeSlice) over(now time.Duration) bool {
	if t.began == 0 {
		t.began = now
	}
	return now-t.began > sliceTime
}

// yield waits until other clients whose commands have arrived run. The caller must then call restart.
func (t *timeSlice) yield(q *pollQueue) {
	if !t.long {
		t.long = true
		q.long.Add(1)
	}
	q.wait()
}

// restart begins the next slice. The parameter now is the uptime.
func (t *timeSlice) restart(now time.Duration) { t.began = now }

// end must be called before any other wait of the client, such as for further commands.
func (t *timeSlice) end(q *pollQueue) {
	if t.long {
		q.long.Add(-1)
	}
	*t = timeSlice{}
}
