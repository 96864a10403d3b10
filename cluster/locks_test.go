package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestMutex checks that only one goroutine at a time holds the lock, and that fake time advances during the wait.
func TestMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, holders := newMutex(), 0
		for range 5 {
			go func() {
				m.Lock()
				defer m.Unlock()
				if holders++; holders != 1 {
					t.Errorf("%d goroutines hold the lock, want 1", holders)
				}
				<-time.After(time.Second)
				holders--
			}()
		}
		begun := time.Now()
		<-time.After(time.Millisecond)
		m.Lock()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the last goroutine acquired the lock after %v, want 5s", took)
		}
		m.Unlock()
	})
}

// TestMutexContext checks that lockContext returns when its context is done.
func TestMutexContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMutex()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.lockContext(ctx); err != nil {
			t.Fatal(err)
		}
		if err := m.lockContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lockContext of a held lock: %v, want DeadlineExceeded", err)
		}
		m.Unlock()
		m.Lock()
	})
}

// TestCallGroup checks that close waits for calls in progress and rejects later ones.
func TestCallGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g callGroup
		if !g.begin() {
			t.Fatal("begin returned false on a new group")
		}
		go func() {
			<-time.After(time.Second)
			if g.begin() {
				t.Error("begin returned true after close was called")
			}
			g.end()
		}()
		begun := time.Now()
		g.close()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("close blocked for %v, want 1s", took)
		}
		g.close()
	})
}
