package server

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// replyError is an error reply: a code and a text.
type replyError string

func (e replyError) Error() string { return string(e) }

// code returns the first word, by which clients distinguish errors.
func (e replyError) code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Error replies. Errors that exist in Redis have its texts, since clients match them.
const (
	errInternal      replyError = "ERR internal error"
	errHungUp        replyError = "ERR the connection is closed" // never sent
	errNotInteger    replyError = "ERR value is not an integer or out of range"
	errNotInt32      replyError = "ERR value is out of range, value must between -2147483648 and 2147483647"
	errSyntax        replyError = "ERR syntax error"
	errCursor        replyError = "ERR invalid cursor"
	errDBIndex       replyError = "ERR DB index is out of range"
	errWrongType     replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errOutOfMemory   replyError = "OOM command not allowed when used memory > 'maxmemory'."
	errNoCluster     replyError = "ERR This instance has cluster support disabled"
	errNoAuth        replyError = "NOAUTH Authentication required."
	errHelloNoAuth   replyError = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errWrongPass     replyError = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword    replyError = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errNoProto       replyError = "NOPROTO unsupported protocol version"
	errProtoNumber   replyError = "ERR Protocol version is not an integer or out of range"
	errClientName    replyError = "ERR Client names cannot contain spaces, newlines or special characters."
	errExecAbort     replyError = "EXECABORT Transaction discarded because of previous errors."
	errExecNoMulti   replyError = "ERR EXEC without MULTI"
	errDiscardMulti  replyError = "ERR DISCARD without MULTI"
	errNestedMulti   replyError = "ERR MULTI calls can not be nested"
	errWatchInMulti  replyError = "ERR WATCH inside MULTI is not allowed"
	errNotInMulti    replyError = "ERR Command not allowed inside a transaction"
	errMonitorQueued replyError = "ERR MONITOR isn't allowed for DENY BLOCKING client"
	errQueueTooLong  replyError = "ERR the transaction exceeds the query buffer limit"
	errWatchTooLong  replyError = "ERR the watched keys exceed the query buffer limit"
	errMaxClients    replyError = "ERR max number of clients reached"
	errNoConfigFile  replyError = "ERR The server is running without a config file"
	errNoSuchClient  replyError = "ERR No such client"
	errNoLFU         replyError = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	errNoIdleTime    replyError = "ERR idle time is not tracked: a limiter key is forgotten by itself once its full limit is back"
	errKeysInMulti   replyError = "ERR KEYS does not run in a transaction, which would make all others wait for it"
	errManyKeys      replyError = "ERR too many keys match for one reply. Use SCAN"
	errRewriteMulti  replyError = "ERR CONFIG REWRITE does not run in a transaction, which would make all others wait for it"
	errPurgeMulti    replyError = "ERR MEMORY PURGE does not run in a transaction, which would make all others wait for it"
	errLoading       replyError = "LOADING Redis is loading the dataset in memory"
	errSaving        replyError = "ERR Background save already in progress"
	errNoSnapshots   replyError = "ERR this server keeps its state in memory only: there is nowhere to save it"
	errShutdown      replyError = "ERR Errors trying to SHUTDOWN. Check logs."
	errNoShutdown    replyError = "ERR No shutdown in progress."
	errBadCommand    replyError = "ERR Invalid command specified"
	errNoKeys        replyError = "ERR The command has no key arguments"
	errBadArguments  replyError = "ERR Invalid arguments specified for command"
	errBadArity      replyError = "ERR Invalid number of arguments specified for command"
	errCachingNoMode replyError = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	errTrackingMode  replyError = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	errTrackingBoth  replyError = "ERR You can't specify both OPTIN mode and OPTOUT mode"
	errNoRedirect    replyError = "ERR The client ID you want redirect to does not exist"
	errManyChannels  replyError = "ERR too many subscriptions"
	errChannelName   replyError = "ERR channel name is too long"
	errTimeout       replyError = "ERR timeout is not an integer or out of range"
	errNotLeading    replyError = "LOADING no node leads the cluster at present: nothing was charged, try again"
	errClusterDown   replyError = "CLUSTERDOWN The cluster is down: no node leads it at present, nothing was charged, try again"
	errBusy          replyError = "BUSY too many clients wait for the leader: nothing was charged, try again later"
	errUncertain     replyError = "UNCERTAIN leadership was lost: it may have been charged"
	errSelectCluster replyError = "ERR SELECT is not allowed in cluster mode"
	errNotClustered  replyError = "ERR this server is not part of a cluster"
	errNoMaster      replyError = "ERR No such master with that name"
	errSlot          replyError = "ERR Invalid slot"
	errSlotKeys      replyError = "ERR keys are not counted by slot"
	errNoScripts     replyError = "ERR scripts are not supported: use CL.THROTTLE, CL.WINDOW, CL.BUCKET or CL.LEAKY for one limit, CL.ALL for several in one atomic step"
	errNoLifetime    replyError = "ERR a limiter key has no lifetime of its own: it expires when its full limit is back. TTL shows when that is, DEL resets the key"
	errNoModules     replyError = "ERR modules cannot be loaded or unloaded: the limiter commands are built in"
	errPublishSwitch replyError = "ERR only the server publishes on this channel: use another one"
	errManyPubsub    replyError = "ERR too many channels match for one reply. Use a narrower pattern"
	errManyLimits    replyError = "ERR CL.ALL takes at most 32 limits"
	errSameKey       replyError = "ERR CL.ALL names a key twice: each limit needs a key of its own"
)

// errTooManyFailures returns the error of an authentication attempt that was not checked. wait is the
// time until the next attempt is allowed.
func errTooManyFailures(wait time.Duration) replyError {
	return replyError(fmt.Sprintf("ERR too many wrong passwords from this address: this one was not checked, try again in %d seconds", limiter.Ceil(wait, time.Second)))
}

// Errors that are sent only to other nodes.
const (
	errPeerNotLeading replyError = forward.NotLeading
	errParting        replyError = forward.Parting
)

// errDenied is sent to clients on other hosts in protected mode, before any command is read.
const errDenied replyError = "DENIED throttled is in protected mode: no password is set, so it only serves clients on its own host. " +
	"To serve others, set a password with --requirepass and let them AUTH, or, on a network that you trust entirely, start it with --protected-mode no."

// engineErrors maps the errors of a limiter.Engine to replies.
var engineErrors = []struct {
	err   error
	reply replyError
}{
	{limiter.ErrWrongKind, errWrongType},
	{limiter.ErrOutOfMemory, errOutOfMemory},
	{limiter.ErrSameKey, errSameKey},
	{limiter.ErrNotLeading, errNotLeading},
	{limiter.ErrUncertain, errUncertain},
}

// clusterErrors maps the errors of a topology.Cluster to the code in front of their text, which
// contains the failed operation.
var clusterErrors = []struct {
	err  error
	code string
}{
	{topology.ErrNoLeader, "LOADING"},
	{topology.ErrChanging, "TRYAGAIN"},
	{topology.ErrUnknown, "ERR"},
	{topology.ErrMember, "ERR"},
	{topology.ErrRefused, "ERR"},
	{topology.ErrSilent, "ERR"},
}

// asReply returns the reply for an error. ok is false and the reply is errInternal if no table
// contains the error.
func asReply(err error) (reply replyError, ok bool) {
	if errors.As(err, &reply) {
		return reply, true
	}
	for _, row := range engineErrors {
		if errors.Is(err, row.err) {
			return row.reply, true
		}
	}
	for _, row := range clusterErrors {
		if errors.Is(err, row.err) {
			return replyError(row.code + " " + err.Error()), true
		}
	}
	return errInternal, false
}

const maxEcho = 128 // maximum number of bytes of a command that an error repeats

// errUnknownCommand returns the error for an unknown command, with the beginning of its arguments.
func errUnknownCommand(args [][]byte) replyError {
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%s', with args beginning with: ", echo(args[0], maxEcho))
	left := maxEcho
	for _, arg := range args[1:] {
		if left <= 0 {
			break
		}
		word := echo(arg, left)
		fmt.Fprintf(&b, "'%s' ", word)
		left -= len(word) + len("'' ")
	}
	return replyError(b.String())
}

func errUnknownSubcommand(container, sub []byte) replyError {
	return replyError(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", echo(sub, maxEcho), bytes.ToUpper(container)))
}

// errSubcommand returns the error for arguments that the arity in the command table does not exclude.
func errSubcommand(args [][]byte) replyError {
	return replyError(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		echo(args[1], maxEcho), bytes.ToUpper(args[0])))
}

// errExecRefused returns the error of an EXEC that was refused and has discarded its transaction.
func errExecRefused(reason error) replyError {
	return replyError("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(reason.Error(), "ERR "))
}

func errArity(name string) replyError {
	return replyError("ERR wrong number of arguments for '" + name + "' command")
}

func errSubscribed(name string) replyError {
	return replyError("ERR Can't execute '" + name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
}

func errNotForwarded(name string) replyError {
	return replyError("ERR '" + name + "' is not accepted from another node: nodes forward only what the leader has to run; connect to a port for clients")
}

// echo returns the first n bytes of b in a form that is safe in a reply or a log line: it replaces CR
// and LF by spaces, escapes other non-printable bytes, and truncates at a NUL.
func echo(b []byte, n int) string {
	var s strings.Builder
	for _, c := range b[:min(len(b), n)] {
		switch {
		case c == 0:
			return s.String()
		case c == '\r' || c == '\n':
			s.WriteByte(' ')
		case c < ' ' || c > '~':
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}
