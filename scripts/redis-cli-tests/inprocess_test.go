package rediscli

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
)

// TestInProcess runs every section with a new server, whose clock only the script advances.
func TestInProcess(t *testing.T) {
	if *update {
		rewrite(t, corpus(t), startInProcess)
	}
	eachSection(t, everySection, func(t *testing.T, sec *section) {
		play(t, sec, startInProcess(t, sec))
	})
}

func everySection(*section) bool { return true }

// startInProcess starts a server with the options of a section.
func startInProcess(t testing.TB, sec *section) place {
	t.Helper()
	opts, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range sec.config {
		if err := opts.Set([]options.Pair{{Name: pair[0], Value: pair[1]}}); err != nil {
			t.Fatal(err)
		}
	}
	now := new(atomic.Uint64)
	now.Store(uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()))
	table := buckets.New(buckets.Config{Clock: now.Load})
	opts.OnChange(func(_, changed *options.Options) error {
		table.SetMaxMemory(changed.MaxMemory)
		return nil
	})
	snapshots := openSnapshots(t, table)
	store := loadRules(t, sec.rules)
	srv := server.New(server.Config{
		Engine:    table,
		Rules:     store,
		RulesLog:  ruleset.NewLocal(store, func() time.Time { return time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC) }),
		Snapshots: snapshots,
		Backup: func(w io.Writer) error {
			_, err := persistence.Write(w, persistence.Info{}, table, nil)
			return err
		},
		Options: opts,
		Version: "test",
	})
	t.Cleanup(func() {
		if err := snapshots.Close(); err != nil {
			t.Error(err)
		}
	})
	return place{addr: testserve.Start(t, srv, server.ErrServerClosed), advance: func(wait time.Duration) { now.Add(uint64(wait)) }}
}

// loadRules returns a store with the rules of a file in corpus/rules, or nil if the name is empty.
func loadRules(t testing.TB, name string) *ruleset.Store {
	t.Helper()
	store := ruleset.NewStore()
	if name == "" {
		return store
	}
	text, err := os.ReadFile(filepath.Join("corpus", "rules", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ruleset.NewLocal(store, time.Now).Propose(t.Context(), ruleset.Proposal{Name: name, Text: string(text)}); err != nil {
		t.Fatal(err)
	}
	return store
}

// openSnapshots opens a snapshot store in a temporary directory.
func openSnapshots(t testing.TB, table *buckets.Table) *persistence.Store {
	t.Helper()
	store, err := persistence.Open(persistence.Config{Dir: t.TempDir(), Name: "dump.thr"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Load(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return store
}
