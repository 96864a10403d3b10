package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// bindCheck binds the command "throttled check". It reads a whole snapshot and prints a summary, or the first error and
// its position.
func bindCheck(*flag.FlagSet) action {
	return func(ctx context.Context, files []string, stdout, _ io.Writer) error {
		return inspect(ctx, files[0], func(s *persistence.Snapshot) error {
			var c contents
			for r := range s.Records() {
				c.add(&r, s.Info().Ended)
			}
			if s.Err() != nil {
				return s.Err()
			}
			return c.describe(stdout, files[0], s.Info())
		})
	}
}

// bindDump binds the command "throttled dump". It prints a snapshot as JSON, one record per line. It verifies the whole
// file before it prints anything.
func bindDump(*flag.FlagSet) action {
	return func(ctx context.Context, files []string, stdout, _ io.Writer) error {
		return inspect(ctx, files[0], func(s *persistence.Snapshot) error {
			if err := s.Verify(); err != nil {
				return err
			}
			err := dumpRecords(stdout, s)
			if errors.Is(err, syscall.EPIPE) {
				return nil // the reader has closed the pipe
			}
			return err
		})
	}
}

// inspect opens a file, and passes it to the function use. If ctx is canceled, the file is closed, so that reads fail.
func inspect(ctx context.Context, file string, use func(*persistence.Snapshot) error) error {
	signal.Ignore(syscall.SIGPIPE) // writing to a closed pipe returns an error instead
	s, err := persistence.OpenSnapshot(file)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	err = use(s)
	if !stop() {
		err = fmt.Errorf("%s: %w", file, context.Cause(ctx))
	}
	_ = s.Close() // opened for reading only
	return err
}

// contents holds the counts that "throttled check" prints for a snapshot.
type contents struct {
	kinds    [256]int64 // records by kind
	expired  int64      // records that had expired at the end of the save
	keyBytes int64
	longest  int
}

func (c *contents) add(r *limiter.Record, now uint64) {
	c.kinds[r.Kind]++
	if r.Expires <= now {
		c.expired++
	}
	c.keyBytes += int64(len(r.Key))
	c.longest = max(c.longest, len(r.Key))
}

func (c *contents) describe(w io.Writer, file string, info persistence.Info) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, form string, args ...any) {
		_, _ = fmt.Fprintf(tw, name+":\t"+form+"\n", args...) // Flush returns the error
	}
	row("file", "%s", file)
	row("size", "%d bytes in %d blocks of records", info.Size, info.Blocks)
	row("format", "%d", info.Format)
	row("written by", "throttled %s", info.Program)
	row("created", "%s", info.Created.UTC().Format(time.RFC3339Nano))
	row("limiter time", "%d ns at the start of the save, %d ns at its end", info.Begun, info.Ended)
	row("keys", "%d, %d live and %d expired at the end of the save", info.Keys, info.Keys-c.expired, c.expired)
	for kind, n := range c.kinds {
		if n > 0 {
			k := limiter.Kind(kind)
			of := ""
			if k.OfRules() {
				of = " of rules" // the name can be that of another kind
			}
			row("  "+k.String()+" ("+k.Encoding()+")"+of, "%d", n)
		}
	}
	row("key bytes", "%d in total, %d in the longest key", c.keyBytes, c.longest)
	row("result", "ok")
	return tw.Flush()
}

// line is a record as printed by dump. Times are whole nanoseconds. JSON readers that store numbers as floating point
// may round them.
type line struct {
	Key       *string `json:"key,omitempty"`        // nil if not valid UTF-8
	KeyBase64 []byte  `json:"key_base64,omitempty"` // set if Key is nil
	Kind      string  `json:"kind"`                 // as in the reply of TYPE
	Algorithm string  `json:"algorithm"`            // as in the reply of OBJECT ENCODING
	Expires   uint64  `json:"expires_ns"`           // limiter time from which the key is equivalent to an absent key
	TTL       uint64  `json:"ttl_ns"`               // time from the end of the save to Expires; 0 if expired
	State     []byte  `json:"state_base64,omitempty"`
}

func newLine(r *limiter.Record, now uint64) line {
	l := line{Kind: r.Kind.String(), Algorithm: r.Kind.Encoding(), Expires: r.Expires, TTL: max(r.Expires, now) - now, State: r.State}
	if utf8.Valid(r.Key) {
		key := string(r.Key)
		l.Key = &key
	} else {
		l.KeyBase64 = r.Key
	}
	return l
}

func dumpRecords(w io.Writer, s *persistence.Snapshot) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	for r := range s.Records() {
		if err := enc.Encode(newLine(&r, s.Info().Ended)); err != nil {
			return fmt.Errorf("print the snapshot: %w", err)
		}
	}
	return errors.Join(s.Err(), buffered.Flush())
}
