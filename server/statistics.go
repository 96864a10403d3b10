package server

import "github.com/throttledhq/throttled/server/statistics"

// Statistics returns a copy of the statistics, for metrics.
func (s *Server) Statistics() statistics.Server {
	o, snapshots := s.opts.Get(), s.snapshots.Status()
	_, none := s.snapshots.(noSnapshots)
	c := &s.stats
	users := s.currentUsers()
	v := statistics.Server{
		Started: s.started, Loading: snapshots.Loading, MaxClients: clientLimit(o),
		Connections: c.connections.Load(), Rejected: c.rejected.Load(), Displaced: c.displaced.Load(),
		EvictedClients: s.clientMemory.evicted.Load(), TimedOut: c.timeouts.Load(), ProtocolErrors: c.protocolErrors.Load(),
		Panics: c.panics.Load(), Overloaded: c.overloaded.Load(), Waiting: s.overload.waiting.Load(), ReadBytes: c.netIn.Load(), WrittenBytes: c.netOut.Load(),
		Users: users.Len(), UsersVersion: users.Version,
		AuthFailed: s.auth.failed.Load(), AuthRefused: s.auth.refused.Load(),
		ClientMemory: s.ClientMemory(), ClientMemoryMax: o.ClientMemory(), MaxMemory: o.MaxMemory,
		SnapshotFailed: snapshots.LastFailed, SnapshotTime: snapshots.LastSave, SnapshotsEnabled: !none,
		Commands: s.commandStatistics(), Errors: c.errorCounts(), Forward: s.forwardStatistics(),
		Rules: s.rules.counts.statistics(), Usage: s.engine.Usage(), TLS: s.tlsStatistics(), Upstream: s.upstreamStatistics(),
	}
	s.mu.Lock()
	v.Clients, v.Peers = len(s.clients)-s.peers, s.peers
	s.mu.Unlock()
	return v
}

// commandStatistics returns the statistics of the commands that were called or refused.
func (s *Server) commandStatistics() (list []statistics.Command) {
	limiting := map[string]*command{}
	for _, cmd := range s.commands[onRedis].every {
		if cmd.parse != nil && !cmd.leases {
			limiting[cmd.name] = cmd
		}
	}
	for id, name := range s.names {
		cs, cmd := &s.stats.commands[id], limiting[name]
		v := statistics.Command{
			Name: name, Limiter: cmd != nil, Rules: cmd != nil && cmd.rules, Calls: cs.calls.Load(), Rejected: cs.rejected.Load(), Failed: cs.failed.Load(),
			Admitted: cs.admitted.Load(), Limited: cs.limited.Load(), Times: cs.times.Load(),
		}
		if v.Calls+v.Rejected > 0 {
			list = append(list, v)
		}
	}
	return list
}

func (s *Server) forwardStatistics() statistics.Forward {
	f := &s.forward.Stats
	uncertain := f.Uncertain.Load()
	return statistics.Forward{
		Answered: f.Commands.Load(), Uncertain: uncertain, Failed: max(f.Errors.Load()-uncertain, 0), Retries: f.Retries.Load(),
	}
}

func (c *ruleCounts) statistics() statistics.Rules {
	return statistics.Rules{
		Unmatched: c.unmatched.Load(), Soft: c.soft.Load(), Banned: c.banned.Load(), Bans: c.bans.Load(),
		ShadowLimited: c.shadowLimited.Load(), ShadowErrors: c.shadowErrors.Load(),
		FailOpen: c.failOpen.Load(), FailClosed: c.failClosed.Load(), Local: c.local.Load(),
	}
}

// tlsStatistics returns the statistics of handshakes.
func (s *Server) tlsStatistics() statistics.TLS {
	if s.tls == nil {
		return statistics.TLS{}
	}
	h := s.tls.Stats()
	return statistics.TLS{Used: true, Completed: h.Completed, Failed: h.Failed, TimedOut: h.TimedOut, Displaced: h.Displaced, Pending: h.Pending}
}
