package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/persistence"
)

const backupText = `Writes a snapshot of all keys of a running server to FILE, which "throttled check" and "throttled
dump" read. The server can be any node of a cluster. The snapshot contains each change that was
acknowledged before the command was run. An existing FILE is replaced when the new one is complete.

A standalone server loads FILE as its snapshot; "throttled restore" makes data directories from it.`

// backupCommand holds the flags of "throttled backup".
type backupCommand struct {
	server   clientFlags
	out      string
	rulesOut string
	usersOut string
	timeout  time.Duration
}

// bindBackup binds the command "throttled backup".
func bindBackup(f *flag.FlagSet) action {
	c := &backupCommand{}
	c.server.register(f, "from")
	f.StringVar(&c.out, "out", "", "`FILE` to write")
	f.StringVar(&c.rulesOut, "rules-out", "", "`FILE` for the text of the rules; default: the rules are not saved")
	f.StringVar(&c.usersOut, "users-out", "", "`FILE` for the users, in the format of aclfile; default: the users are not saved")
	f.DurationVar(&c.timeout, "timeout", 30*time.Second, "maximum `DURATION` without an answer of the server")
	return func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		switch {
		case c.out == "":
			return wrongUsage("--out is missing: specify the file to write")
		case c.timeout <= 0:
			return wrongUsage("--timeout must be greater than 0")
		case c.rulesOut == c.out || c.usersOut == c.out || c.rulesOut != "" && c.rulesOut == c.usersOut:
			return wrongUsage("--out, --rules-out and --users-out must name different files")
		}
		return c.run(ctx, stdout)
	}
}

// run writes the files and describes the backup.
func (c *backupCommand) run(ctx context.Context, stdout io.Writer) error {
	client, err := c.server.client(c.timeout)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	conn := client.Conn() // a backup belongs to a connection
	defer func() { _ = conn.Close() }()
	if err := c.saveTexts(ctx, conn); err != nil {
		return err
	}
	info, err := writeBackup(c.out, func(f *os.File) error { return c.receive(ctx, conn, f) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %d keys, %d bytes, at %s\n", c.out, info.Keys, info.Size, info.Created.UTC().Format(time.RFC3339))
	return err
}

// saveTexts writes the text of the newest version of the rules, and the users, to the files that are set.
func (c *backupCommand) saveTexts(ctx context.Context, conn *redis.Conn) error {
	if c.rulesOut != "" {
		text, err := conn.Do(ctx, "CL.RULES", "GET").Text()
		if err != nil {
			return fmt.Errorf("read the rules: %w", c.server.explain(err))
		}
		if err := writeText(c.rulesOut, text); err != nil {
			return err
		}
	}
	if c.usersOut != "" {
		lines, err := conn.Do(ctx, "ACL", "LIST").StringSlice()
		if err != nil {
			return fmt.Errorf("read the users: %w", c.server.explain(err))
		}
		return writeText(c.usersOut, strings.Join(lines, "\n")+"\n")
	}
	return nil
}

// writeText writes a text to a file.
func writeText(path, text string) error {
	_, err := writeFileAtomically(path, func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}, nil)
	return err
}

// receive writes a backup of the server to f. The leader of a cluster determines the position in the log that the backup must
// contain, and the server at the other end of conn sends it.
func (c *backupCommand) receive(ctx context.Context, conn *redis.Conn, f *os.File) error {
	index, err := conn.Do(ctx, "CL.BACKUP", "INDEX").Int64()
	if err == nil {
		err = conn.Do(ctx, "CL.BACKUP", "START", index).Err()
	}
	for err == nil {
		var piece string
		if piece, err = conn.Do(ctx, "CL.BACKUP", "NEXT").Text(); err != nil || piece == "" {
			break
		}
		if _, err := f.WriteString(piece); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("read the backup: %w", c.server.explain(err))
	}
	return nil
}

// writeBackup writes a snapshot to a file and verifies it.
func writeBackup(path string, write func(*os.File) error) (info persistence.Info, err error) {
	return writeFileAtomically(path, write, verifySnapshot)
}

// verifySnapshot reads a whole snapshot.
func verifySnapshot(path string) (info persistence.Info, err error) {
	s, err := persistence.OpenSnapshot(path)
	if err != nil {
		return info, err
	}
	defer func() { _ = s.Close() }() // opened for reading only
	return s.Info(), s.Verify()
}

// writeFileAtomically creates or replaces a file. The new file is complete, durable and verified before it gets its name; after
// an error, path is unchanged. Only the owner can read the file, since keys may identify customers, and users
// have digests of passwords.
func writeFileAtomically(path string, write func(*os.File) error, verify func(path string) (persistence.Info, error)) (info persistence.Info, err error) {
	unfinished := path + ".tmp"
	f, err := createUnfinished(path, unfinished)
	if err != nil {
		return info, err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && verify != nil {
		info, err = verify(unfinished)
	}
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return info, errors.Join(err, os.Remove(unfinished))
	}
	return info, fsutil.Sync(filepath.Dir(path))
}

// createUnfinished creates the file that later replaces path. It removes a file of an earlier backup that was killed, instead of
// opening it: in a directory like /tmp, another user could have created it, to read the backup, or a link to a file of others.
func createUnfinished(path, unfinished string) (*os.File, error) {
	if err := fsutil.CheckReplaceable(path); err != nil {
		return nil, fmt.Errorf("%w: specify a file to create or to replace", err)
	}
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the operator chooses the path
}
