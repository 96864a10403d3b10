package metrics

// serverRows are the metrics of connections and of the process.
var serverRows = []row{
	{"throttled_info", gauge, []string{"version", "cluster", "node"}, "1; the labels have the version of the program, and the names of the cluster and of this node.",
		func(s *snapshot, out *values) {
			if len(s.view.Members) == 0 {
				out.add(1, s.version, "", "")
				return
			}
			out.add(1, s.version, s.view.Cluster, s.view.Self)
		}},
	{"throttled_loading", gauge, nil, "1 while the state is loaded from a snapshot, otherwise 0.",
		func(s *snapshot, out *values) { out.is(s.server.Loading) }},
	{"throttled_clients", gauge, nil, "Open connections of clients.",
		func(s *snapshot, out *values) { out.count(int64(s.server.Clients)) }},
	{"throttled_clients_limit", gauge, nil, "Maximum number of connections: maxclients, or less if the limit of open files is lower.",
		func(s *snapshot, out *values) { out.count(int64(s.server.MaxClients)) }},
	{"throttled_peer_streams", gauge, nil, "Open streams on which other nodes send commands to this node.",
		func(s *snapshot, out *values) { out.count(int64(s.server.Peers)) }},
	{"throttled_connections_total", counter, nil, "Accepted connections.",
		func(s *snapshot, out *values) { out.count(s.server.Connections) }},
	{"throttled_rejected_connections_total", counter, nil, "Connections closed immediately: maxclients is reached, protected mode, or memory for clients is full.",
		func(s *snapshot, out *values) { out.count(s.server.Rejected) }},
	{"throttled_closed_connections_total", counter, []string{"reason"}, "Connections closed by the server: timeout, memory (maxmemory-clients), or displaced (to make room, before the first command).",
		func(s *snapshot, out *values) {
			out.count(s.server.TimedOut, "timeout")
			out.count(s.server.EvictedClients, "memory")
			out.count(s.server.Displaced, "displaced")
		}},
	{"throttled_failed_authentications_total", counter, []string{"reason"}, "Failed authentications: wrong (user or password), or limited (beyond auth-failures-per-minute).",
		func(s *snapshot, out *values) {
			out.count(s.server.AuthFailed, "wrong")
			out.count(s.server.AuthRefused, "limited")
		}},
	{"throttled_users", gauge, nil, "Users, including the user default.",
		func(s *snapshot, out *values) { out.count(int64(s.server.Users)) }},
	{"throttled_users_version", gauge, nil, "Version of the users that this node uses. In a cluster it is the same on all nodes; 0: the cluster has no users of its own.",
		func(s *snapshot, out *values) { out.add(float64(s.server.UsersVersion)) }},
	{"throttled_protocol_errors_total", counter, nil, "Requests that do not follow the protocol.",
		func(s *snapshot, out *values) { out.count(s.server.ProtocolErrors) }},
	{"throttled_handler_panics_total", counter, nil, "Commands that have failed because of an error in the program.",
		func(s *snapshot, out *values) { out.count(s.server.Panics) }},
	{"throttled_overload_refused_total", counter, nil, "Limiter commands refused with BUSY because of overload-target.",
		func(s *snapshot, out *values) { out.count(s.server.Overloaded) }},
	{"throttled_overload_waiting_clients", gauge, nil, "Clients whose commands wait to be read. 0 without overload-target.",
		func(s *snapshot, out *values) { out.count(s.server.Waiting) }},
	{"throttled_received_bytes_total", counter, nil, "Bytes received from clients.",
		func(s *snapshot, out *values) { out.count(s.server.ReadBytes) }},
	{"throttled_sent_bytes_total", counter, nil, "Bytes sent to clients.",
		func(s *snapshot, out *values) { out.count(s.server.WrittenBytes) }},
}

// memoryRows are the metrics of the keys and of memory.
var memoryRows = []row{
	{"throttled_keys", gauge, nil, "Keys, including expired keys that are not dropped yet.",
		func(s *snapshot, out *values) { out.count(s.server.Usage.Keys) }},
	{"throttled_lease_units_total", counter, []string{"result"}, "Units of leases that were granted to lessees, and units that lessees have returned. See docs/leases.md.",
		func(s *snapshot, out *values) {
			out.count(int64(s.server.Usage.GrantedUnits), "granted")
			out.count(int64(s.server.Usage.ReturnedUnits), "returned")
		}},
	{"throttled_memory_bytes", gauge, nil, "Memory for keys.",
		func(s *snapshot, out *values) { out.count(s.server.Usage.Bytes) }},
	{"throttled_memory_limit_bytes", gauge, nil, "Maximum memory for keys (maxmemory); 0: no limit.",
		func(s *snapshot, out *values) { out.count(s.server.MaxMemory) }},
	{"throttled_client_memory_bytes", gauge, nil, "Memory for clients.",
		func(s *snapshot, out *values) { out.count(s.server.ClientMemory) }},
	{"throttled_client_memory_limit_bytes", gauge, nil, "Maximum memory for clients (maxmemory-clients); 0: no limit.",
		func(s *snapshot, out *values) { out.count(s.server.ClientMemoryMax) }},
	{"throttled_evicted_keys_total", counter, nil, "Keys dropped because memory was full. Their limits were restored early.",
		func(s *snapshot, out *values) { out.count(s.server.Usage.Evicted) }},
	{"throttled_expired_keys_total", counter, nil, "Keys dropped because their limits were restored.",
		func(s *snapshot, out *values) { out.count(s.server.Usage.Expired) }},
	{"throttled_key_lookups_total", counter, []string{"result"}, "Decisions and lookups of a key that exists (hit) or does not exist (miss).",
		func(s *snapshot, out *values) {
			out.count(s.server.Usage.Hits, "hit")
			out.count(s.server.Usage.Misses, "miss")
		}},
	{"throttled_longest_pause_seconds", gauge, []string{"work"}, "Longest time for which maintenance work has blocked decisions since the start: growth, compaction, eviction, sweep or snapshot.",
		func(s *snapshot, out *values) {
			p := &s.server.Usage.Pauses
			out.add(p.Growth.Seconds(), "growth")
			out.add(p.Compaction.Seconds(), "compaction")
			out.add(p.Eviction.Seconds(), "eviction")
			out.add(p.Sweep.Seconds(), "sweep")
			out.add(p.Copy.Seconds(), "snapshot")
		}},
	{"throttled_tls_handshakes_total", counter, []string{"result"}, "TLS handshakes of clients: completed, failed, timed_out (not completed within 5 s), or displaced (aborted because too many were in progress). Absent without TLS.",
		func(s *snapshot, out *values) {
			if t := &s.server.TLS; t.Used {
				out.count(t.Completed, "completed")
				out.count(t.Failed, "failed")
				out.count(t.TimedOut, "timed_out")
				out.count(t.Displaced, "displaced")
			}
		}},
	{"throttled_tls_handshakes_pending", gauge, nil, "TLS handshakes of clients in progress. Absent without TLS.",
		func(s *snapshot, out *values) {
			if s.server.TLS.Used {
				out.count(int64(s.server.TLS.Pending))
			}
		}},
	{"throttled_snapshot_failed", gauge, nil, "1 if the last snapshot could not be written, otherwise 0. Absent without snapshots.",
		func(s *snapshot, out *values) {
			if s.server.SnapshotsEnabled {
				out.is(s.server.SnapshotFailed)
			}
		}},
	{"throttled_snapshot_timestamp_seconds", gauge, nil, "Unix time of the last successful snapshot, or of the start of the server if there was none. Absent without snapshots.",
		func(s *snapshot, out *values) {
			if s.server.SnapshotsEnabled {
				out.count(s.server.SnapshotTime.Unix())
			}
		}},
}
