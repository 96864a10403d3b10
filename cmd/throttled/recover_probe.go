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

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/raftlog"
)

// recoverAnswerWithin is how long a node may take to accept a connection.
const recoverAnswerWithin = 2 * time.Second

// known returns the nodes that may run, under each of their addresses: those of the cluster and those that are to be the
// cluster. The node of the directory is one of them, since the directory may be a copy.
func (r *recovery) known(found *raftlog.Summary) (list []options.Node) {
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

// checkGone returns an error if --gone names a node that is not known: another one would be probed than was meant.
func (r *recovery) checkGone(known []options.Node) error {
	for _, id := range r.gone {
		if !slices.ContainsFunc(known, func(n options.Node) bool { return n.ID == id }) {
			var ids []string
			for _, n := range known {
				ids = append(ids, n.ID)
			}
			slices.Sort(ids)
			return fmt.Errorf("--gone names %q: %w; the nodes are %s", id, errUnknown, strings.Join(slices.Compact(ids), ", "))
		}
	}
	return nil
}

// probe returns an error unless nothing accepts connections at the addresses of the nodes that are not gone.
func (r *recovery) probe(ctx context.Context, known []options.Node) error {
	errs := make([]error, len(known))
	var dials sync.WaitGroup
	for i, n := range known {
		if !slices.Contains(r.gone, n.ID) {
			dials.Go(func() { errs[i] = probeOne(ctx, n) })
		}
	}
	dials.Wait()
	if ctx.Err() != nil { // the dials have failed for that reason
		return errInterrupted
	}
	return errors.Join(errs...)
}

// probeOne returns an error if something accepts connections at the address of a node, or if that is unknown.
func probeOne(ctx context.Context, n options.Node) error {
	d := net.Dialer{Timeout: recoverAnswerWithin}
	c, err := d.DialContext(ctx, "tcp", n.Addr)
	var unresolved *net.DNSError
	switch {
	case err == nil:
		_ = c.Close() // nothing was sent
		return fmt.Errorf("%s at %s: %w", n.ID, n.Addr, errAnswering)
	case errors.As(err, &unresolved):
		return fmt.Errorf("%s at %s: %w: %w", n.ID, n.Addr, errUnresolved, err)
	}
	return nil
}
