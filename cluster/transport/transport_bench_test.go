package transport

import (
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkTransport sends entries of 4 KiB to a node over TLS and waits for each answer. The
// receiving node uses raft.NetworkTransport in the case "raft", and RaftTransport in the case "guarded".
func BenchmarkTransport(b *testing.B) {
	for name, serve := range map[string]func(l *Link) raft.Transport{
		"raft":    func(l *Link) raft.Transport { return raft.NewNetworkTransport(l.Raft(), 3, patience, io.Discard) },
		"guarded": func(l *Link) raft.Transport { return newTransport(l) },
	} {
		b.Run(name, func(b *testing.B) {
			s := newSite(b)
			from, to := newTransport(s.link("n1")), serve(s.link("n2"))
			go func() {
				for {
					select {
					case rpc := <-to.Consumer():
						rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
					case <-b.Context().Done():
						return
					}
				}
			}()
			q := &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1, Entries: []*raft.Log{{Index: 2, Term: 1, Data: make([]byte, 4096)}}}
			b.ReportAllocs()
			for b.Loop() {
				if err := from.AppendEntries("n2", to.LocalAddr(), q, new(raft.AppendEntriesResponse)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
