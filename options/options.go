package options

import (
	"errors"
	"fmt"
	"time"
)

// Options is the value of every setting. Each field belongs to the row of the table
// whose name it spells.
//
// An Options that a [Store] has handed out is shared and must not be changed, nor may
// the slices in it.
type Options struct {
	// Network.

	Bind          []string      // addresses to listen on: IP addresses, host names or "*" for all; at least one
	Port          int           // TCP port; 0 takes any free one
	ProtectedMode bool          // serve only loopback clients while RequirePass is empty
	RequirePass   string        // password that clients must give; empty asks for none
	TCPKeepAlive  time.Duration // whole seconds between keep-alive probes; 0 sends none
	Timeout       time.Duration // whole seconds after which an idle client is closed; 0 never closes

	// Limits.

	MaxClients             int           // connections at one time; at least 1
	ClientQueryBufferLimit int64         // bytes of one command; at least 16 KiB
	ProtoMaxBulkLen        int64         // bytes of one argument; 1 KiB to 512 MiB, at most ClientQueryBufferLimit
	ProtoMaxInlineLen      int64         // bytes of an inline command; 1 KiB to 1 MiB, at most ClientQueryBufferLimit
	ProtoMaxArgs           int           // arguments of one command, its name included; at least 1
	CommandTimeout         time.Duration // whole seconds to complete a command that has begun, and to authenticate; 0 waits for ever
	WriteTimeout           time.Duration // whole seconds that a reply may stand unread; 0 waits for ever
	ShutdownTimeout        time.Duration // whole seconds that clients get to finish at shutdown; 0 closes at once
	WindowLogMaxEntries    int           // admitted requests that the log of one CL.WINDOW ... LOG key holds; 1 to 65536

	// Memory.

	MaxMemory       int64  // bytes for keys; 0 sets no limit
	MaxMemoryPolicy string // what gives way at the limit: new keys ("noeviction"), or those that limit least ("evict-smallest-debt")

	// Snapshots.

	Dir              string      // working directory of the process
	DBFilename       string      // name of the snapshot in Dir; no path
	Save             []SavePoint // when to write a snapshot: as soon as one of them is reached; none means never
	SnapshotFallback bool        // load the previous snapshot when the latest is damaged

	// Log and diagnostics.

	LogLevel                string        // "debug", "verbose", "notice" or "warning"
	LogFile                 string        // file that the log is appended to; empty means standard error
	SlowlogLogSlowerThan    time.Duration // whole microseconds from which a command is logged as slow; 0 logs all, below 0 none
	SlowlogMaxLen           int           // slow commands that are remembered; 0 remembers none
	LatencyMonitorThreshold time.Duration // whole milliseconds from which an event is sampled; 0 samples none

	// Compatibility: what clients ask for and only one answer is true of.

	Databases               int  // always 1
	AppendOnly              bool // always false
	ReplicaReadOnly         bool // always true
	StopWritesOnBgsaveError bool // always false
}

// SavePoint is reached when After has passed since the last snapshot and at least Changes
// have been made since.
type SavePoint struct {
	After   time.Duration // whole seconds, at least 1
	Changes int64         // 0 to 2147483647
}

// Sizes in bytes.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Default returns the settings of a server that was told nothing.
func Default() Options {
	return Options{
		Bind:          []string{"127.0.0.1"},
		Port:          6380,
		ProtectedMode: true,
		TCPKeepAlive:  60 * time.Second,

		MaxClients:             10000,
		ClientQueryBufferLimit: 1 * mib,
		ProtoMaxBulkLen:        512 * kib,
		ProtoMaxInlineLen:      64 * kib,
		ProtoMaxArgs:           1024,
		CommandTimeout:         10 * time.Second,
		WriteTimeout:           10 * time.Second,
		ShutdownTimeout:        10 * time.Second,
		WindowLogMaxEntries:    8192,

		MaxMemoryPolicy: "noeviction",

		Dir:        ".",
		DBFilename: "dump.thr",

		LogLevel:             "notice",
		SlowlogLogSlowerThan: 10 * time.Millisecond,
		SlowlogMaxLen:        128,

		Databases:       1,
		ReplicaReadOnly: true,
	}
}

// Validate reports the first value that is outside what its option accepts, or else
// the first two that do not go together.
func (o *Options) Validate() error {
	for i := range table {
		r, scratch := &table[i], *o
		if v := r.field(&scratch); v.Set(r.get(o)) != nil {
			return fmt.Errorf("%s %s: must be %s", r.name, quote(r.public(o)), v.want())
		}
	}
	if c := o.conflict(); c != nil {
		return errors.New(c.reason)
	}
	return nil
}

// conflict says that the values of two options, each legal by itself, do not go together.
type conflict struct {
	names  [2]string
	reason string
}

// conflict returns the first conflict there is, or nil.
func (o *Options) conflict() *conflict {
	const limit = "client-query-buffer-limit"
	switch {
	case o.ProtoMaxBulkLen > o.ClientQueryBufferLimit:
		return exceeds("proto-max-bulk-len", limit)
	case o.ProtoMaxInlineLen > o.ClientQueryBufferLimit:
		return exceeds("proto-max-inline-len", limit)
	}
	return nil
}

func exceeds(name, limit string) *conflict {
	return &conflict{[2]string{name, limit}, name + " must not be greater than " + limit}
}
