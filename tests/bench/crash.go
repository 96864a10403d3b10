package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	crashRounds = 100
	crashKeys   = 200_000
	flips       = 1000
	cuts        = 300
)

// crash kills the server during saves, and checks that the remaining snapshot loads with all keys.
// Then it damages a snapshot in many places, and checks that each damage is detected.
func crash(_ settings, b *board) error {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	span, err := firstSave(dir)
	if err != nil {
		return err
	}
	good, cut, before := 0, 0, 0
	for range crashRounds {
		r, err := killWhileSaving(dir, time.Duration(rand.Int64N(int64(span))))
		if err != nil {
			return err
		}
		// Each round charges once. An interrupted save leaves the state of the previous round.
		if r.keys >= crashKeys && (r.charged == before || r.charged == before+1) {
			good++
		}
		if r.cut {
			cut++
		}
		before = r.charged
	}
	b.note("%d rounds, %d of them with an incomplete save; %d charges saved", crashRounds, cut, before)
	b.atLeast("kills during BGSAVE after which all keys load", float64(good), crashRounds, "")
	return damage(dir, b)
}

// firstSave writes a snapshot, and returns 5/4 of the time that a background save takes.
// If the server is killed at a random time within this span, the save is usually incomplete,
// and sometimes complete.
func firstSave(dir string) (span time.Duration, err error) {
	err = withServer([]string{"--dir", dir}, func(p *process) error {
		if err := fillAll(p.addr, keyspace{"m:", 16, 0, crashKeys}, never); err != nil {
			return err
		}
		begin := time.Now()
		if _, err := command(p.addr, "BGSAVE"); err != nil {
			return err
		}
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for range ticker.C {
			saves, err := infoField(p.addr, "persistence", "rdb_saves")
			if err != nil || saves == "1" {
				span = time.Since(begin) * 5 / 4
				return err
			}
		}
		return nil
	})
	return span, err
}

// crashed is the result of a round of killWhileSaving.
type crashed struct {
	keys    int  // number of loaded keys
	charged int  // number of charges by chargeRound in the loaded state
	cut     bool // the save was incomplete when the server was killed
}

const chargeRound = "CL.THROTTLE round 1000 1 86400"

// killWhileSaving starts a server on the snapshot, charges a key, starts a save, and kills the
// server after the given time.
func killWhileSaving(dir string, after time.Duration) (r crashed, err error) {
	p, err := startServer("--dir", dir)
	if err != nil {
		return r, err
	}
	if err := r.readState(p.addr); err != nil {
		return r, errors.Join(err, p.stop())
	}
	for _, text := range []string{chargeRound, "BGSAVE"} {
		if _, err := command(p.addr, text); err != nil {
			return r, errors.Join(err, p.stop())
		}
	}
	<-time.After(after)
	err = p.kill()
	_, half := os.Stat(filepath.Join(dir, "dump.thr.tmp"))
	r.cut = half == nil
	return r, err
}

// readState reads the loaded state. Each charge of chargeRound adds a day to the TTL of its key.
func (r *crashed) readState(addr string) error {
	text, err := infoField(addr, "persistence", "rdb_last_load_keys_loaded")
	if err != nil {
		return err
	}
	if r.keys, err = strconv.Atoi(text); err != nil {
		return err
	}
	if text, err = command(addr, "TTL round"); err != nil {
		return err
	}
	seconds, err := strconv.Atoi(text)
	r.charged = (max(0, seconds) + 86400 - 1) / 86400
	return err
}

// damage flips bits of a snapshot, truncates it, and runs "throttled check" on the results.
func damage(dir string, b *board) error {
	whole, err := os.ReadFile(filepath.Join(dir, "dump.thr"))
	if err != nil {
		return err
	}
	p, err := startServer() // only its binary is used
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	refused, err := p.refuses(whole)
	if refused || err != nil {
		return errors.Join(errors.New("throttled check rejects an intact snapshot"), err)
	}
	found := 0
	for i := range flips + cuts {
		bad := bytes.Clone(whole)
		if i < flips {
			bad[rand.IntN(len(bad))] ^= 1 << rand.IntN(8)
		} else {
			bad = bad[:rand.IntN(len(bad))]
		}
		if refused, err = p.refuses(bad); err != nil {
			return err
		}
		if refused {
			found++
		}
	}
	b.atLeast(fmt.Sprintf("%d flipped bits and %d truncations detected", flips, cuts), float64(found), flips+cuts, "")
	return nil
}

// refuses reports whether "throttled check" rejects a file with the given content.
func (p *process) refuses(content []byte) (bool, error) {
	path := filepath.Join(p.dir, "checked.thr")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return false, err
	}
	err := exec.Command(filepath.Join(p.dir, "throttled"), "check", path).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return true, nil
	}
	return false, err
}
