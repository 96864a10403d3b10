package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/server/forward"
)

func cmdClientID(c *client, _ [][]byte) error {
	c.out.Int(c.id)
	return nil
}

func cmdClientGetName(c *client, _ [][]byte) error {
	if name := c.session.currentInfo().name; name != "" {
		c.out.Text(name)
	} else {
		c.out.Null()
	}
	return nil
}

func cmdClientSetName(c *client, args [][]byte) error {
	if !validName(args[2]) {
		return errClientName
	}
	c.session.setInfo(func(i *clientInfo) { i.name = string(args[2]) })
	c.updateSettings()
	c.out.OK()
	return nil
}

func cmdClientSetInfo(c *client, args [][]byte) error {
	attribute := strings.ToLower(string(args[2]))
	if attribute != "lib-name" && attribute != "lib-ver" {
		return replyError("ERR Unrecognized option '" + echo(args[2], maxEcho) + "'")
	}
	if !validName(args[3]) {
		return replyError("ERR " + attribute + " cannot contain spaces, newlines or special characters.")
	}
	c.session.setInfo(func(i *clientInfo) {
		if attribute == "lib-name" {
			i.libName = string(args[3])
		} else {
			i.libVer = string(args[3])
		}
	})
	c.updateSettings()
	c.out.OK()
	return nil
}

func cmdClientInfo(c *client, _ [][]byte) error {
	c.out.Verbatim(c.describe() + "\n")
	return nil
}

func cmdClientList(c *client, args [][]byte) error {
	wanted, err := parseClientFilter(args[2:])
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, other := range c.srv.sortedClients() {
		if wanted.matches(other) {
			b.WriteString(other.describe())
			b.WriteByte('\n')
		}
	}
	c.out.Verbatim(b.String())
	return nil
}

// clientFilter selects connections for CLIENT LIST and CLIENT KILL. An unset field matches every connection.
type clientFilter struct {
	ids         []int64
	kind        string
	addr, laddr string
	user        string
	skip        *client // client that never matches
}

func (f *clientFilter) matches(c *client) bool {
	info := c.session.currentInfo()
	return (len(f.ids) == 0 || slices.Contains(f.ids, c.id)) &&
		(f.kind == "" || f.kind == info.kind(c.listener)) &&
		(f.addr == "" || f.addr == c.addr().String()) &&
		(f.laddr == "" || f.laddr == c.conn.socket.LocalAddr().String()) &&
		(f.user == "" || f.user == info.login.Name()) &&
		c != f.skip
}

// Types of clients, as named by Redis.
const (
	kindNormal  = "normal"
	kindReplica = "replica" // monitors, and other nodes
	kindPubsub  = "pubsub"
)

func parseClientFilter(args [][]byte) (f clientFilter, err error) {
	if len(args) == 0 {
		return f, nil
	}
	switch word := strings.ToLower(string(args[0])); {
	case word == "type" && len(args) == 2:
		f.kind, err = parseClientType(args[1])
		return f, err
	case word == "id" && len(args) > 1:
		for _, arg := range args[1:] {
			id, ok := resp.ParseInt(arg)
			if !ok {
				return f, replyError("ERR Invalid client ID")
			}
			f.ids = append(f.ids, id)
		}
		return f, nil
	}
	return f, errSyntax
}

func parseClientType(arg []byte) (string, error) {
	switch kind := strings.ToLower(string(arg)); kind {
	case kindNormal, "master", kindReplica, kindPubsub:
		return kind, nil
	case "slave":
		return kindReplica, nil
	}
	return "", replyError("ERR Unknown client type '" + echo(arg, maxEcho) + "'")
}

// cmdClientKill implements both forms of the command: CLIENT KILL address, and CLIENT KILL filter value [filter value
// ...].
func cmdClientKill(c *client, args [][]byte) error {
	if len(args) == 3 {
		return killAddr(c, string(args[2]))
	}
	f, err := parseKillFilter(c, args[2:])
	if err != nil {
		return err
	}
	killed := int64(0)
	for _, other := range c.srv.sortedClients() {
		if f.matches(other) {
			kill(c, other)
			killed++
		}
	}
	c.out.Int(killed)
	return nil
}

func killAddr(c *client, addr string) error {
	for _, other := range c.srv.sortedClients() {
		if other.addr().String() == addr {
			kill(c, other)
			c.out.OK()
			return nil
		}
	}
	return errNoSuchClient
}

// kill closes the connection of the client other. If other is c, the connection is closed after the reply, otherwise
// immediately.
func kill(c, other *client) {
	if other == c {
		c.pipe.quit()
		return
	}
	other.conn.hangUp()
}

// parseKillFilter parses the filters of CLIENT KILL, in pairs of a name and a value. By default c itself is not killed.
func parseKillFilter(c *client, args [][]byte) (clientFilter, error) {
	f := clientFilter{skip: c}
	if len(args)%2 != 0 {
		return f, errSyntax
	}
	for ; len(args) > 0; args = args[2:] {
		if err := f.set(c, args[0], args[1]); err != nil {
			return f, err
		}
	}
	return f, nil
}

// set sets one filter of CLIENT KILL. c is the client that sent the command.
func (f *clientFilter) set(c *client, name, value []byte) (err error) {
	switch strings.ToLower(string(name)) {
	case "id":
		id, ok := resp.ParseInt(value)
		if !ok || id < 1 {
			return replyError("ERR client-id should be greater than 0")
		}
		f.ids = []int64{id}
	case "type":
		f.kind, err = parseClientType(value)
	case "addr":
		f.addr = string(value)
	case "laddr":
		f.laddr = string(value)
	case "user":
		if f.user = string(value); c.srv.currentUsers().Get(f.user) == nil {
			err = replyError("ERR No such user '" + echo(value, maxEcho) + "'")
		}
	case "skipme":
		f.skip, err = parseSkipMe(c, value)
	default:
		err = errSyntax
	}
	return err
}

// parseSkipMe returns the client that CLIENT KILL must not kill: c, or nil for SKIPME no.
func parseSkipMe(c *client, value []byte) (*client, error) {
	switch strings.ToLower(string(value)) {
	case "yes":
		return c, nil
	case "no":
		return nil, nil
	}
	return nil, errSyntax
}

// describe returns the line of a connection in CLIENT LIST. Redis fields without a meaning in this server have a
// constant value. Memory sizes are in bytes. qbuf is the size of the read buffer, and rbs is the size of the reply
// buffer. Both were measured after the last read. omem is the size of the queued output.
func (c *client) describe() string {
	i, u := c.session.currentInfo(), &c.conn.usage
	now := c.srv.ticks.Load()
	idle := time.Duration(now-c.conn.activity.lastRead.Load()) * tick
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=0 multi=%d"+
		" qbuf=%d qbuf-free=0 argv-mem=0 multi-mem=%d rbs=%d rbp=0 obl=0 oll=0 omem=%d tot-mem=%d events=r cmd=%s user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s",
		c.id, c.addr(), c.conn.socket.LocalAddr(), c.conn.socket.descriptor(), i.name,
		int64(time.Since(c.born).Seconds()), int64(idle.Seconds()), i.flags(), i.channels, i.patterns, i.multi,
		u.query.Load(), u.multi.Load(), u.replies.Load(), u.queued.Load(), u.total(), c.session.lastCommand(), i.login.Name(), i.resp, i.libName, i.libVer)
}

// flags returns the value of the field "flags" in CLIENT LIST: one letter for each state of the client.
func (i *clientInfo) flags() string {
	var b strings.Builder
	for _, f := range []struct {
		set    bool
		letter byte
	}{{i.monitor, 'O'}, {i.channels+i.patterns > 0, 'P'}, {i.multi >= 0, 'x'}, {i.tracking, 't'}, {i.noEvict, 'e'}} {
		if f.set {
			b.WriteByte(f.letter)
		}
	}
	if b.Len() == 0 {
		return "N"
	}
	return b.String()
}

func cmdClientReply(c *client, args [][]byte) error {
	switch strings.ToLower(string(args[2])) {
	case "on":
		c.session.replies = replyOn
		c.out.OK()
	case "off":
		c.session.replies = replyOff
	case "skip":
		if c.session.replies != replyOff {
			c.session.replies = replySkip
		}
	default:
		return errSyntax
	}
	return nil
}

// cmdClientNoEvict sets whether the client is exempt from eviction. The memory of an exempt client still counts toward
// maxmemory-clients.
func cmdClientNoEvict(c *client, args [][]byte) error {
	on, err := parseOnOff(args[2])
	if err != nil {
		return err
	}
	c.session.setInfo(func(i *clientInfo) { i.noEvict = on })
	c.out.OK()
	return nil
}

// cmdClientNoTouch has no effect: keys have no access time.
func cmdClientNoTouch(c *client, args [][]byte) error {
	if _, err := parseOnOff(args[2]); err != nil {
		return err
	}
	c.out.OK()
	return nil
}

// cmdClientMaintNotifications has no effect: the server never sends maintenance notifications.
func cmdClientMaintNotifications(c *client, args [][]byte) error {
	if _, err := parseOnOff(args[2]); err != nil {
		return err
	}
	if options := args[3:]; len(options) > 0 && (len(options) != 2 || !isOneOf(options[0], "moving-endpoint-type")) {
		return errSyntax
	}
	c.out.OK()
	return nil
}

func parseOnOff(arg []byte) (bool, error) {
	switch {
	case bytes.EqualFold(arg, []byte("on")):
		return true, nil
	case bytes.EqualFold(arg, []byte("off")):
		return false, nil
	}
	return false, errSyntax
}

// cmdClientUnblock always replies with 0: no command of this server is blocking.
func cmdClientUnblock(c *client, args [][]byte) error {
	switch {
	case len(args) > 4:
		return errSubcommand(args)
	case len(args) == 4 && !isOneOf(args[3], "timeout", "error"):
		return replyError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	}
	if _, ok := resp.ParseInt(args[2]); !ok {
		return errNotInteger
	}
	c.out.Int(0)
	return nil
}

func isOneOf(arg []byte, words ...string) bool {
	return slices.Contains(words, strings.ToLower(string(arg)))
}

// cmdClientCapa implements CLIENT CAPA for other nodes. Unknown capabilities are ignored, as in Valkey.
func cmdClientCapa(c *client, args [][]byte) error {
	for _, name := range args[2:] {
		c.session.marksCharges = c.session.marksCharges || spells(name, forward.ChargedCapability)
	}
	c.out.OK()
	return nil
}
