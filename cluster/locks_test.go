package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestMutex excludes others, while time passes.
func TestMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, holders := newMutex(), 0
		for range 5 {
			go func() {
				m.Lock()
				defer m.Unlock()
				if holders++; holders != 1 {
					t.Errorf("%d hold it at the same time", holders)
				}
				<-time.After(time.Second)
				holders--
			}()
		}
		begun := time.Now()
		<-time.After(time.Millisecond)
		m.Lock()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the last goroutine has it after %v, want 5s", took)
		}
		m.Unlock()
	})
}

// TestMutexContext waits for a lock no longer than the context allows.
func TestMutexContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMutex()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		if err := m.LockContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a lock that is held: %v", err)
		}
		m.Unlock()
		m.Lock()
	})
}

// TestEntrance waits for the goroutines that are within, and refuses later ones.
func TestEntrance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e entrance
		if !e.enter() {
			t.Fatal("it is closed at first")
		}
		go func() {
			<-time.After(time.Second)
			if e.enter() {
				t.Error("it is open after close was called")
			}
			e.leave()
		}()
		begun := time.Now()
		e.close()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("close waits for %v, want 1s", took)
		}
		e.close()
	})
}
