package server

import (
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// infoReplication writes the state of the cluster in the fields of a Redis master or replica, followed by the state of
// the Raft log.
func infoReplication(s *Server, w *infoWriter) {
	if !s.clustered() {
		w.field("role", "master")
		w.field("connected_slaves", 0)
		w.field("master_replid", s.runID)
		w.field("master_repl_offset", 0)
		return
	}
	view, status := s.cluster.View(), s.cluster.Status()
	if view.Leading {
		infoLeader(view, &status, w)
	} else {
		infoFollower(s, view, &status, w)
	}
	w.field("master_replid", clusterNodeID(view.Cluster, ""))
	w.field("master_repl_offset", status.Applied)
	infoLog(view, &status, w)
}

func infoLeader(view *topology.View, status *topology.Status, w *infoWriter) {
	list := connected(view, status)
	w.field("role", "master")
	w.field("connected_slaves", len(list))
	for i, m := range list {
		lag := int64(status.Follower(m.ID).Silent.Seconds())
		w.field(fmt.Sprintf("slave%d", i), fmt.Sprintf("ip=%s,port=%d,state=online,offset=%d,lag=%d", m.Host, m.Ports(false).Redis, offsetOf(view, status, m.ID), lag))
	}
}

func infoFollower(s *Server, view *topology.View, status *topology.Status, w *infoWriter) {
	leader, _ := s.broker.leader()
	w.field("role", "slave")
	w.field("master_host", leader.host)
	w.field("master_port", leader.plain.Redis)
	w.field("master_link_status", linkWord(view, "up", "down"))
	w.field("master_last_io_seconds_ago", int64(status.Contact.Seconds()))
	w.field("master_sync_in_progress", 0)
	w.field("slave_repl_offset", status.Applied)
	w.field("slave_read_only", 1)
	w.field("connected_slaves", 0)
}

// infoLog writes the state of replication in fields that Redis does not have.
func infoLog(view *topology.View, status *topology.Status, w *infoWriter) {
	w.field("cluster_id", view.Cluster)
	w.field("node_id", view.Self)
	w.field("leader", view.Leader)
	w.field("raft_term", view.Term)
	w.field("raft_commit_index", status.Committed)
	w.field("raft_applied_index", status.Applied)
	w.field("raft_last_index", status.Last)
	w.field("raft_snapshot_index", status.Snapshot)
	w.field("replication_mode", status.Mode)
	w.field("replication_waiting", status.Waiting)
	w.field("replication_unflushed_usec", status.Unflushed.Microseconds())
	w.field("replication_async_bound_usec", status.MayLose.Microseconds())
	w.field("raft_heartbeat_usec", status.Heartbeat.Microseconds())
	w.field("raft_heartbeat_settled", yesNo(status.Settled))
	w.field("raft_heartbeats_answered", status.RoundTrips.Answered)
	w.field("raft_heartbeats_slow", status.RoundTrips.Slow)
	w.field("raft_heartbeat_longest_usec", status.RoundTrips.Longest.Microseconds())
	w.field("replicated_entries", status.Entries)
	w.field("replicated_bytes", status.Changes)
	w.field("log_time_behind_usec", status.Behind.Microseconds())
	w.field("leader_contact_usec", status.Contact.Microseconds())
	w.field("rollbacks", status.Rollbacks)
}

// infoSentinel writes the fields of a Sentinel that monitors this cluster as its only master.
func infoSentinel(s *Server, w *infoWriter) {
	w.field("sentinel_masters", 1)
	w.field("sentinel_tilt", 0)
	w.field("sentinel_running_scripts", 0)
	w.field("sentinel_scripts_queue_length", 0)
	w.field("sentinel_simulate_failure_flags", 0)
	leader, _ := s.broker.leader()
	view := s.cluster.View()
	status := "ok"
	if view.Leader == "" {
		status = "sdown"
	}
	w.field("master0", fmt.Sprintf("name=%s,status=%s,address=%s:%d,slaves=%d,sentinels=%d",
		s.opts.Get().SentinelMaster, status, leader.host, leader.plain.Leader, len(replicas(view, view.Leader)), len(sentinels(view))))
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
