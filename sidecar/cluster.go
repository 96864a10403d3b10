package sidecar

import (
	"context"
	"errors"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

var _ topology.Cluster = (*Upstream)(nil)

// errNoState is the error of operations that change a cluster: a sidecar belongs to none.
var errNoState = errors.New("a sidecar holds no state")

// View returns a view in which the selected address is the leader. This node never leads.
func (u *Upstream) View() *topology.View { return u.view.Load() }

// Status returns a status without replication.
func (u *Upstream) Status() topology.Status { return topology.Status{Mode: "sync"} }

// Fingerprint returns the zero Fingerprint.
func (u *Upstream) Fingerprint() topology.Fingerprint { return topology.Fingerprint{} }

// Flush returns limiter.ErrNotLeading.
func (u *Upstream) Flush() error { return limiter.ErrNotLeading }

// Hold returns false.
func (u *Upstream) Hold() bool { return false }

// Release does nothing.
func (u *Upstream) Release() {}

// Add returns an error.
func (u *Upstream) Add(context.Context, string, string) error { return errNoState }

// Remove returns an error.
func (u *Upstream) Remove(context.Context, string) error { return errNoState }

// SetHeartbeat returns an error.
func (u *Upstream) SetHeartbeat(context.Context, time.Duration) error { return errNoState }

// Transfer returns an error.
func (u *Upstream) Transfer(context.Context, string) error { return errNoState }
