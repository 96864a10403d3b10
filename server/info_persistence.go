package server

import (
	"time"

	"github.com/throttledhq/throttled/persistence"
)

// infoPersistence writes the snapshot status, using the names of Redis's RDB fields. The fields for fork, copy-on-write
// and the append-only file have constant values, since this server uses none of them.
func infoPersistence(s *Server, w *infoWriter) {
	status := s.snapshots.Status()
	w.field("loading", countTrue(status.Loading))
	w.field("async_loading", 0)
	w.field("current_cow_peak", 0)
	w.field("current_cow_size", 0)
	w.field("current_cow_size_age", 0)
	w.field("current_fork_perc", "0.00")
	w.field("current_save_keys_processed", 0)
	w.field("current_save_keys_total", 0)
	w.field("rdb_changes_since_last_save", status.Changes)
	w.field("rdb_bgsave_in_progress", countTrue(status.Saving))
	w.field("rdb_last_save_time", status.LastSave.Unix())
	w.field("rdb_last_bgsave_status", okUnless(status.LastFailed))
	w.field("rdb_last_bgsave_time_sec", secondsOrNone(status.LastDuration, status.LastDuration >= 0))
	w.field("rdb_current_bgsave_time_sec", secondsOrNone(time.Since(status.SaveStarted), status.Saving))
	w.field("rdb_saves", status.Saves)
	w.field("rdb_last_cow_size", 0)
	w.field("rdb_last_load_keys_expired", status.KeysExpired)
	w.field("rdb_last_load_keys_loaded", status.KeysLoaded)
	w.field("aof_enabled", 0)
	w.field("aof_rewrite_in_progress", 0)
	w.field("aof_rewrite_scheduled", 0)
	w.field("aof_last_rewrite_time_sec", -1)
	w.field("aof_current_rewrite_time_sec", -1)
	w.field("aof_last_bgrewrite_status", "ok")
	w.field("aof_last_write_status", "ok")
	if status.Loading {
		infoLoading(w, &status)
	}
}

// infoLoading writes the progress of loading and the estimated time until it is done.
func infoLoading(w *infoWriter, status *persistence.Status) {
	elapsed := int64(time.Since(status.LoadStarted) / time.Second)
	eta := int64(1) // used in the first second, when there is no estimate
	if elapsed > 0 {
		left := max(status.LoadTotal-status.LoadDone, 0)
		eta = int64(float64(elapsed) * float64(left) / float64(status.LoadDone+1))
	}
	w.field("loading_start_time", status.LoadStarted.Unix())
	w.field("loading_total_bytes", status.LoadTotal)
	w.field("loading_loaded_bytes", status.LoadDone)
	w.field("loading_loaded_perc", formatFloat(percent(status.LoadDone, status.LoadTotal)))
	w.field("loading_eta_seconds", eta)
}

func okUnless(failed bool) string {
	if failed {
		return "err"
	}
	return "ok"
}

// secondsOrNone returns d in whole seconds if the argument known is true, and -1 otherwise.
func secondsOrNone(d time.Duration, known bool) int64 {
	if !known {
		return -1
	}
	return int64(d / time.Second)
}
