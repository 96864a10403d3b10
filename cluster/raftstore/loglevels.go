package raftstore

import (
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// eventLevels lists the lines of the library that do not get the default level of defaultLevel: info lines about elections,
// leadership and members, which matter to an operator, and warnings and errors that belong to the normal course of an
// election or of a stopped node, or that repeat another line.
var eventLevels = map[string]slog.Level{
	"entering candidate state":                               slog.LevelInfo,
	"entering follower state":                                slog.LevelInfo,
	"entering leader state":                                  slog.LevelInfo,
	"election won":                                           slog.LevelInfo,
	"installing snapshot on":                                 slog.LevelInfo, // the follower needs entries that the log no longer has
	"Installed remote snapshot":                              slog.LevelInfo,
	"added peer, starting replication":                       slog.LevelInfo,
	"removed peer, stopping replication":                     slog.LevelInfo,
	"removed ourself, shutting down":                         slog.LevelInfo,
	"removed ourself, transitioning to follower":             slog.LevelInfo,
	"pre-vote campaign failed, waiting for election timeout": slog.LevelInfo,

	"new leader elected, stepping down":                             slog.LevelInfo,
	"peer has newer term, stopping replication":                     slog.LevelInfo,
	"rejecting pre-vote request since node is not a voter":          slog.LevelInfo,
	"rejecting pre-vote request since node is not in configuration": slog.LevelInfo,
	"rejecting pre-vote request since our last index is greater":    slog.LevelInfo,
	"rejecting pre-vote request since our last term is greater":     slog.LevelInfo,
	"rejecting pre-vote request since we have a leader":             slog.LevelInfo,
	"rejecting vote request since node is not a voter":              slog.LevelInfo,
	"rejecting vote request since node is not in configuration":     slog.LevelInfo,
	"rejecting vote request since our last index is greater":        slog.LevelInfo,
	"rejecting vote request since our last term is greater":         slog.LevelInfo,
	"rejecting vote request since we have a leader":                 slog.LevelInfo,

	// A follower without the newest entries gets them next.
	"appendEntries rejected, sending older logs": slog.LevelDebug,
	"clearing log suffix":                        slog.LevelDebug,
	"failed to get previous log":                 slog.LevelDebug,
	"previous log term mis-match":                slog.LevelDebug,
	"skipping application of old log":            slog.LevelDebug,
	// A node that has not joined yet has no members.
	"no known peers, aborting election":                   slog.LevelDebug,
	"not part of stable configuration, aborting election": slog.LevelDebug,
	"heartbeat timeout reached, not part of a stable configuration or a non-voter, not triggering a leader election": slog.LevelDebug,
	"unable to get address for server, using fallback address":                                                       slog.LevelDebug,
	// "failed to heartbeat to" reports the same failure.
	"failed to decode incoming command":       slog.LevelDebug,
	"failed to flush response":                slog.LevelDebug,
	"failed to pipeline appendEntries":        slog.LevelDebug,
	"failed to start pipeline replication to": slog.LevelDebug,
	"failed to appendEntries to":              slog.LevelDebug,
	"duplicate requestVote from":              slog.LevelDebug,
}

// defaultLevel returns the level of lines that eventLevels does not list. Info lines of the library describe its internals:
// pipelines, snapshots and the removal of entries from the log. Errors become warnings: in the library, an error usually
// means that another node is unreachable or that this one is shutting down.
func defaultLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// lineLevel returns the level at which a line of the library is logged.
func lineLevel(level hclog.Level, text string) slog.Level {
	if listed, ok := eventLevels[text]; ok {
		return listed
	}
	return defaultLevel(level)
}
