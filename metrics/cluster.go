package metrics

import (
	"maps"
	"slices"

	"github.com/throttledhq/throttled/topology"
)

// clusterRows are the metrics of replication. Those of the log are absent on a server without a log.
var clusterRows = []row{
	{"throttled_leader", gauge, nil, "1 if this node decides, otherwise 0. A server without a cluster decides.",
		func(s *snapshot, out *values) { out.is(s.view.Leading) }},
	{"throttled_leader_known", gauge, nil, "1 if this node has a leader or is the leader, otherwise 0.",
		func(s *snapshot, out *values) { out.is(s.view.Leading || s.view.Leader != "") }},
	{"throttled_members", gauge, []string{"role"}, "Members of the cluster according to this node: voter or nonvoter. Absent without a log.",
		func(s *snapshot, out *values) {
			if s.logged {
				voters := countVoters(s.view)
				out.count(int64(voters), "voter")
				out.count(int64(len(s.view.Members)-voters), "nonvoter")
			}
		}},
	{"throttled_raft_term", gauge, nil, "Term of Raft.", logged(func(s *snapshot, out *values) { out.add(float64(s.view.Term)) })},
	{"throttled_raft_index", gauge, []string{"index"}, "Index of the newest entry of the log: last (stored), committed, applied, or snapshot (in the newest snapshot).",
		logged(func(s *snapshot, out *values) {
			out.add(float64(s.status.Last), "last")
			out.add(float64(s.status.Committed), "committed")
			out.add(float64(s.status.Applied), "applied")
			out.add(float64(s.status.Snapshot), "snapshot")
		})},
	{"throttled_replication_lag_entries", gauge, []string{"node"}, "On the leader: entries that another member has not acknowledged yet.",
		eachFollower(func(s *snapshot, f *topology.Follower) float64 { return float64(max(s.status.Last, f.Last) - f.Last) })},
	{"throttled_follower_silent_seconds", gauge, []string{"node"}, "On the leader: time since the last answer of another member; 0 if it has not answered in this term.",
		eachFollower(func(_ *snapshot, f *topology.Follower) float64 { return f.Silent.Seconds() })},
	{"throttled_follower_answers", gauge, []string{"node"}, "On the leader: 1 if another member answers, otherwise 0.",
		eachFollower(func(_ *snapshot, f *topology.Follower) float64 {
			if f.Answers {
				return 1
			}
			return 0
		})},
	{"throttled_leader_contact_seconds", gauge, nil, "Time since the last message from the leader; 0 on the leader.",
		logged(func(s *snapshot, out *values) { out.add(s.status.Contact.Seconds()) })},
	{"throttled_commit_seconds", distribution, nil, "On the leader: time from the collection of an entry to its commit.",
		logged(func(s *snapshot, out *values) { out.durations(&s.commits.Latency) })},
	{"throttled_commit_decisions", distribution, nil, "On the leader: admissions in each entry (size of group commits).",
		logged(func(s *snapshot, out *values) { out.numbers(&s.commits.Decisions) })},
	{"throttled_uncommitted_entries", gauge, nil, "Entries of this node that are not committed.",
		logged(func(s *snapshot, out *values) { out.count(int64(s.status.Waiting)) })},
	{"throttled_uncommitted_seconds", gauge, nil, "Age of the oldest entry of this node that is not committed.",
		logged(func(s *snapshot, out *values) { out.add(s.status.Unflushed.Seconds()) })},
	{"throttled_replicated_entries_total", counter, nil, "Entries that this node has submitted as the leader.",
		logged(func(s *snapshot, out *values) { out.add(float64(s.status.Entries)) })},
	{"throttled_replicated_bytes_total", counter, nil, "Bytes of these entries.",
		logged(func(s *snapshot, out *values) { out.add(float64(s.status.Changes)) })},
	{"throttled_rollbacks_total", counter, nil, "Leaderships of this node that have ended, with a rollback of uncommitted changes.",
		logged(func(s *snapshot, out *values) { out.add(float64(s.status.Rollbacks)) })},
	{"throttled_heartbeats_total", counter, []string{"speed"}, "Answered heartbeats of this node as the leader: slow (longer than half of raft-heartbeat) or normal.",
		logged(func(s *snapshot, out *values) {
			r := &s.status.RoundTrips
			out.add(float64(r.Answered-min(r.Slow, r.Answered)), "normal")
			out.add(float64(r.Slow), "slow")
		})},
	{"throttled_log_time_behind_seconds", gauge, nil, "Time by which limiter time is behind the wall clock of this node; negative if it is ahead.",
		logged(func(s *snapshot, out *values) { out.add(s.status.Behind.Seconds()) })},
	{"throttled_certificate_expiry_seconds", gauge, []string{"certificate"}, "Time until a certificate expires, negative after that: that of this node (node) or of the CA of the cluster (ca), of the ports for clients with TLS (server), or the first of the CAs of clients (client_ca). Absent without certificates.",
		func(s *snapshot, out *values) {
			for _, name := range slices.Sorted(maps.Keys(s.certificates)) {
				out.add(s.certificates[name].Seconds(), name)
			}
		}},
}

// logged returns a function that collects nothing if the server has no log.
func logged(collect func(s *snapshot, out *values)) func(s *snapshot, out *values) {
	return func(s *snapshot, out *values) {
		if s.logged {
			collect(s, out)
		}
	}
}

// eachFollower returns a function that adds a value for each other member. Only the leader has their progress.
func eachFollower(value func(s *snapshot, f *topology.Follower) float64) func(s *snapshot, out *values) {
	return func(s *snapshot, out *values) {
		for i := range s.status.Followers {
			f := &s.status.Followers[i]
			out.add(value(s, f), f.ID)
		}
	}
}

func countVoters(v *topology.View) (n int) {
	for i := range v.Members {
		if v.Members[i].Voter {
			n++
		}
	}
	return n
}
