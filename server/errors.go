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

// code returns the first word of the error, which clients use to distinguish errors.
func (e replyError) code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Error replies. Errors that exist in Redis have the same texts as in Redis, because clients compare them.
const (
	errInternal      replyError = "ERR internal error: see the log of the server"
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
	errNoPassword    replyError = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?" // #nosec G101 -- not a secret
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
	errQueueTooLong  replyError = "ERR the transaction exceeds client-query-buffer-limit: queue fewer or shorter commands"
	errWatchTooLong  replyError = "ERR the watched keys exceed client-query-buffer-limit: watch fewer or shorter keys, or call UNWATCH first"
	errMaxClients    replyError = "ERR max number of clients reached"
	errNoConfigFile  replyError = "ERR The server is running without a config file"
	errNoSuchClient  replyError = "ERR No such client"
	errNoLFU         replyError = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	errNoIdleTime    replyError = "ERR idle time is not tracked: a limiter key expires when its full limit is available again. TTL returns the time until then"
	errKeysInMulti   replyError = "ERR KEYS is not allowed in a transaction, because it would block all other clients: use SCAN"
	errManyKeys      replyError = "ERR too many keys match for one reply: use SCAN"
	errRewriteMulti  replyError = "ERR CONFIG REWRITE is not allowed in a transaction, because it would block all other clients: call it outside MULTI"
	errPurgeMulti    replyError = "ERR MEMORY PURGE is not allowed in a transaction, because it would block all other clients: call it outside MULTI"
	errLoading       replyError = "LOADING Redis is loading the dataset in memory"
	errSaving        replyError = "ERR Background save already in progress"
	errNoSnapshots   replyError = "ERR snapshots are not available: the server could not use its directory at startup. See the log, set the option dir and restart"
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
	errManyChannels  replyError = "ERR too many subscriptions: a connection can have 1024 channels and 1024 patterns. Use patterns, or another connection"
	errChannelName   replyError = "ERR channel name is too long: the maximum is 1024 bytes"
	errTimeout       replyError = "ERR timeout is not an integer or out of range"
	errNotLeading    replyError = "LOADING the cluster has no leader at the moment: nothing was charged, try again"
	errClusterDown   replyError = "CLUSTERDOWN The cluster is down: it has no leader at the moment, nothing was charged, try again"
	errBusy          replyError = "BUSY too many clients are waiting for the leader: nothing was charged, try again later"
	errOverloaded    replyError = "BUSY the server is overloaded: nothing was charged, try again later"
	errUncertain     replyError = "UNCERTAIN leadership was lost before the request was confirmed: it may have taken effect"
	errSelectCluster replyError = "ERR SELECT is not allowed in cluster mode"
	errNotClustered  replyError = "ERR this server is not part of a cluster: send the command to a node of a cluster"
	errNoUsersFile   replyError = "ERR This Redis instance is not configured to use an ACL file. Set the option aclfile, and restart the server: ACL SETUSER changes the users until then"
	errUsersMulti    replyError = "ERR the users cannot be changed, saved or loaded in a transaction, because it would block all other clients: call ACL outside MULTI"
	errUsersInLog    replyError = "ERR the users of a cluster are in its log, where ACL SETUSER and ACL DELUSER store them: ACL SAVE and ACL LOAD are for standalone servers"
	errUsersNotSaved replyError = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
	errDeleteDefault replyError = "ERR The 'default' user cannot be removed"
	errGenPass       replyError = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096" // #nosec G101 -- not a secret
	errUsersTooLong  replyError = "ERR the users exceed 1048576 bytes: define fewer users or patterns"
	errNoMaster      replyError = "ERR No such master with that name"
	errSlot          replyError = "ERR Invalid slot"
	errSlotKeys      replyError = "ERR keys are not counted by slot: DBSIZE returns the number of all keys"
	errNoScripts     replyError = "ERR scripts are not supported: use CL.THROTTLE, CL.WINDOW, CL.BUCKET or CL.LEAKY for one limit, CL.ALL for several in one atomic step"
	errNoLifetime    replyError = "ERR the expiry of a limiter key cannot be changed: the key expires when its full limit is available again. TTL returns the time until then, DEL resets the key"
	errNoModules     replyError = "ERR modules cannot be loaded or unloaded: the limiter commands are built in"
	errPublishSwitch replyError = "ERR only the server publishes on this channel: use another channel"
	errManyPubsub    replyError = "ERR too many channels match for one reply: use a narrower pattern"
	errManyLimits    replyError = "ERR CL.ALL takes at most 32 limits"
	errSameKey       replyError = "ERR two limits of CL.ALL have the same key: each limit needs a key of its own"
	errLessee        replyError = "ERR invalid lessee: must have 1 to 64 bytes"
	errLesseeShort   replyError = "ERR LESSEE must be followed by a name of 1 to 64 bytes"
	errRawShort      replyError = "ERR a raw limit needs 5 arguments: the syntax is RAW key kind max interval amount"
	errUnitPlace     replyError = "ERR MS must be given once, as the last argument"
)

// errTooManyFailures returns the error for an authentication attempt whose password was not checked. The parameter wait
// is the time until the next attempt is allowed.
func errTooManyFailures(wait time.Duration) replyError {
	return replyError(fmt.Sprintf("ERR too many wrong passwords from this address: this attempt was not checked, try again in %d seconds", limiter.Ceil(wait, time.Second)))
}

// overloadedReply is errOverloaded in the wire format.
var overloadedReply = []byte("-" + errOverloaded + "\r\n")

// Errors that are sent only to other nodes.
const (
	errPeerNotLeading replyError = forward.NotLeading
	errGoaway         replyError = forward.Goaway
)

// errDenied is sent to clients on other hosts in protected mode, before any command is read.
const errDenied replyError = "DENIED throttled is running in protected mode: no password is set, so it accepts connections from its own host only. " +
	"To accept others, set a password with --requirepass, which clients send with AUTH. On a trusted network, start throttled with --protected-mode no instead."

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

// clusterErrors maps the errors of a topology.Cluster to reply codes. The reply consists of the code and the text of
// the error, which contains the failed operation.
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
	{topology.ErrOutcome, "UNCERTAIN"},
	{topology.ErrNoUsers, "ERR"},
	{topology.ErrUsersChanged, "TRYAGAIN"},
	{topology.ErrUsersUnknown, "UNCERTAIN"},
	{topology.ErrUnchanged, "TRYAGAIN"},
}

// asReply returns the reply for an error. If err is not a replyError, and is in neither of the two tables above, the
// reply is errInternal and ok is false.
func asReply(err error) (reply replyError, ok bool) {
	for _, row := range engineErrors { // first, since errors.As allocates memory
		if errors.Is(err, row.err) {
			return row.reply, true
		}
	}
	var given replyError
	if errors.As(err, &given) {
		return given, true
	}
	for _, row := range clusterErrors {
		if errors.Is(err, row.err) {
			return replyError(row.code + " " + err.Error()), true
		}
	}
	return errInternal, false
}

const maxEcho = 128 // maximum number of bytes of an argument that an error repeats

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

// errSubcommand returns the error for wrong arguments that pass the arity check.
func errSubcommand(args [][]byte) replyError {
	return replyError(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		echo(args[1], maxEcho), bytes.ToUpper(args[0])))
}

// errExecRefused returns the error for an EXEC that was refused and whose transaction was discarded.
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
	return replyError("ERR '" + name + "' is not accepted from another node: nodes forward only commands that the leader must run. Connect to a client port")
}

// echo returns the first n bytes of b in a form that is safe in a reply or a log line. Like Redis, it
// replaces CR and LF by spaces and truncates at a NUL; other non-printable bytes are escaped.
func echo(b []byte, n int) string {
	b = b[:min(len(b), n)]
	if at := bytes.IndexByte(b, 0); at >= 0 {
		b = b[:at]
	}
	var s strings.Builder
	for _, c := range b {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		writeEscaped(&s, c)
	}
	return s.String()
}

// quote returns b within single quotes in a form that is safe in a reply or a log line: non-printable
// bytes are escaped, and dots replace the bytes after the first maxEcho.
func quote(b []byte) string {
	var s strings.Builder
	s.WriteByte('\'')
	for _, c := range b[:min(len(b), maxEcho)] {
		writeEscaped(&s, c)
	}
	if len(b) > maxEcho {
		s.WriteString("...")
	}
	s.WriteByte('\'')
	return s.String()
}

// writeEscaped appends a byte, escaped unless it is a printable ASCII character.
func writeEscaped(s *strings.Builder, c byte) {
	const hex = "0123456789abcdef"
	if c < ' ' || c > '~' {
		s.Write([]byte{'\\', 'x', hex[c>>4], hex[c&15]})
		return
	}
	s.WriteByte(c)
}
