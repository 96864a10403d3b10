package server

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
)

const (
	backupPiece = 256 << 10 // maximum size of a reply of CL.BACKUP NEXT, in bytes

	// backupIdle is the time without CL.BACKUP NEXT after which another client may start a backup.
	backupIdle = 30 * time.Second

	// backupWait is the maximum time for which CL.BACKUP START waits until the node has applied the log.
	backupWait = 10 * time.Second
)

var (
	errBackupBusy    = replyError("BUSY another client reads a backup of this server: try again later")
	errNoBackup      = replyError("ERR no backup was started on this connection, or it was replaced: send CL.BACKUP START")
	errBackupBehind  = replyError("TRYAGAIN this node has not applied the log index in time: try again, or use another node")
	errBackupIndex   = replyError("ERR the index must be an integer of at least 0: use the reply to CL.BACKUP INDEX")
	errNotBackedUp   = replyError("ERR this server cannot be backed up")
	errBackupAborted = errors.New("the client does not read the backup")
)

// backups holds the backup in progress. A server has at most one, which bounds its memory.
type backups struct {
	write   func(w io.Writer) error // nil if there are no backups
	mu      sync.Mutex
	current *backup
}

// backup is a snapshot that a client reads in pieces. The snapshot is written only as fast as it is read: the writer holds a
// copy of one shard of the table.
type backup struct {
	read    *io.PipeReader
	piece   []byte
	touched atomic.Int64 // tick of the last command of the client
}

// beginBackup starts a backup. It replaces a backup whose client has not read for backupIdle. It fails if another backup is in
// progress.
func (s *Server) beginBackup() (*backup, error) {
	b := &s.backups
	b.mu.Lock()
	defer b.mu.Unlock()
	now := s.ticks.Load()
	switch {
	case b.write == nil:
		return nil, errNotBackedUp
	case b.current != nil && time.Duration(now-b.current.touched.Load())*tick < backupIdle:
		return nil, errBackupBusy
	case b.current != nil:
		b.current.abort()
	}
	r, w := io.Pipe()
	b.current = &backup{read: r, piece: make([]byte, backupPiece)}
	b.current.touched.Store(now)
	s.active.Go(func() { _ = w.CloseWithError(b.write(w)) }) // never fails
	return b.current, nil
}

// endBackup stops a backup, unless it has been replaced.
func (s *Server) endBackup(old *backup) {
	if old == nil {
		return
	}
	b := &s.backups
	b.mu.Lock()
	defer b.mu.Unlock()
	old.abort()
	if b.current == old {
		b.current = nil
	}
}

func (b *backup) abort() { _ = b.read.CloseWithError(errBackupAborted) } // never fails

// next returns the next bytes. They are valid until the next call, and empty at the end.
func (b *backup) next(now int64) ([]byte, error) {
	b.touched.Store(now)
	n, err := io.ReadFull(b.read, b.piece)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b.piece[:n], err
}

// cmdBackupIndex replies with the index of the newest committed entry of the log, after all acknowledged changes are
// committed. Without a cluster, the reply is 0.
func cmdBackupIndex(c *client, _ [][]byte) error {
	if c.srv.cluster == nil {
		c.out.Int(0)
		return nil
	}
	if err := awaitCommit(c.srv); err != nil {
		return limiter.ErrNotLeading // nothing was changed, so the command can be repeated on the next leader
	}
	c.out.Int(int64(c.srv.cluster.Status().Committed))
	return nil
}

// cmdBackupStart starts a backup of this node. A backup that was started earlier on the connection is replaced.
func cmdBackupStart(c *client, args [][]byte) error {
	index := int64(0)
	if len(args) > 3 {
		return errSubcommand(args)
	}
	if len(args) == 3 {
		var ok bool
		if index, ok = resp.ParseInt(args[2]); !ok || index < 0 {
			return errBackupIndex
		}
	}
	c.endBackup()
	if !c.srv.awaitApplied(uint64(index)) {
		return errBackupBehind
	}
	b, err := c.srv.beginBackup()
	if err != nil {
		return err
	}
	c.session.backup = b
	c.out.OK()
	return nil
}

// awaitApplied waits until this node has applied an entry of the log. It returns false after backupWait, or if the server
// shuts down.
func (s *Server) awaitApplied(index uint64) bool {
	if s.cluster == nil {
		return true
	}
	end := time.NewTimer(backupWait)
	defer end.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for s.cluster.Status().Applied < index {
		select {
		case <-again.C:
		case <-end.C:
			return false
		case <-s.shutdownBegun:
			return false
		}
	}
	return true
}

func cmdBackupNext(c *client, _ [][]byte) error {
	b := c.session.backup
	if b == nil {
		return errNoBackup
	}
	piece, err := b.next(c.srv.ticks.Load())
	switch {
	case errors.Is(err, io.ErrClosedPipe): // another client has replaced the backup
		c.endBackup()
		return errNoBackup
	case err != nil:
		c.endBackup()
		return replyError("ERR the backup has failed, start it again: " + err.Error())
	}
	c.out.Bulk(piece)
	if len(piece) == 0 {
		c.endBackup()
	}
	return nil
}

// endBackup stops the backup of the client, if there is one.
func (c *client) endBackup() {
	c.srv.endBackup(c.session.backup)
	c.session.backup = nil
}
