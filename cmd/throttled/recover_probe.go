package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/options"
)

// recoverAnswerWithin is the timeout for connecting to a node.
const recoverAnswerWithin = 2 * time.Second

// known returns the nodes of the old cluster and of the new cluster, all of which may be running. A node with two
// addresses is listed twice. The node that owns the directory is included, since the directory may be a copy and the
// original may be in use.
func (r *recovery) known(found *raftstore.Summary) (list []options.Node) {
	for _, s := range found.Configuration.Servers {
		list = append(list, options.Node{ID: string(s.ID), Addr: string(s.Address)})
	}
	for _, n := range r.nodes {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// checkGone returns an error if --gone contains an unknown id. Otherwise a misspelled id would not be reported, and the
// intended node would be probed although it is lost.
func (r *recovery) checkGone(known []options.Node) error {
	for _, id := range r.gone {
		if !slices.ContainsFunc(known, func(n options.Node) bool { return n.ID == id }) {
			var ids []string
			for _, n := range known {
				ids = append(ids, n.ID)
			}
			slices.Sort(ids)
			return fmt.Errorf("--gone %q: %w; the nodes are %s", id, errUnknown, strings.Join(slices.Compact(ids), ", "))
		}
	}
	return nil
}

// probe returns an error if any node that is not in --gone has an address that accepts connections or cannot be
// resolved.
func (r *recovery) probe(ctx context.Context, known []options.Node) error {
	errs := make([]error, len(known))
	var dials sync.WaitGroup
	for i, n := range known {
		if !slices.Contains(r.gone, n.ID) {
			dials.Go(func() { errs[i] = probeOne(ctx, n) })
		}
	}
	dials.Wait()
	if ctx.Err() != nil { // the dials failed because ctx was canceled
		return errInterrupted
	}
	return errors.Join(errs...)
}

// probeOne returns an error if the address of a node accepts connections or cannot be resolved.
func probeOne(ctx context.Context, n options.Node) error {
	d := net.Dialer{Timeout: recoverAnswerWithin}
	c, err := d.DialContext(ctx, "tcp", n.Addr)
	var unresolved *net.DNSError
	switch {
	case err == nil:
		_ = c.Close() // no data was sent
		return fmt.Errorf("%s at %s: %w", n.ID, n.Addr, errAnswering)
	case errors.As(err, &unresolved):
		return fmt.Errorf("%s at %s: %w: %w", n.ID, n.Addr, errUnresolved, err)
	}
	return nil
}
