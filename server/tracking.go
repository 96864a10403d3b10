package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/resp"
)

// tracking is the state of CLIENT TRACKING. The server has no table of the keys that clients have read. Instead, it
// invalidates the keys of a read immediately after the read, so that the client does not keep the values. The cost is
// small, because the values of limiter keys change with time, so that clients could not keep the values anyway. In
// BCAST mode this applies to the keys with one of the prefixes.
type tracking struct {
	on, bcast, optIn, optOut, noLoop bool
	exceptNext                       bool // the next command is an exception to the mode; set by CLIENT CACHING
	prefixes                         []string
}

func cmdClientTracking(c *client, args [][]byte) error {
	on, err := parseOnOff(args[2])
	if err != nil {
		return err
	}
	t, err := parseTracking(args[3:])
	if err != nil {
		return err
	}
	t.on = on
	if err := t.check(c.session.tracking); err != nil {
		return err
	}
	switch {
	case !on:
		t = tracking{}
	case t.bcast && len(t.prefixes) == 0:
		t.prefixes = []string{""} // all keys
	}
	c.session.tracking = t
	c.session.setInfo(func(i *clientInfo) { i.tracking = on })
	c.updateSettings()
	c.out.OK()
	return nil
}

func parseTracking(args [][]byte) (t tracking, err error) {
	for len(args) > 0 {
		word := strings.ToLower(string(args[0]))
		args = args[1:]
		switch {
		case word == "bcast":
			t.bcast = true
		case word == "optin":
			t.optIn = true
		case word == "optout":
			t.optOut = true
		case word == "noloop":
			t.noLoop = true
		case word == "prefix" && len(args) > 0:
			t.prefixes = append(t.prefixes, string(args[0]))
			args = args[1:]
		case word == "redirect" && len(args) > 0:
			if _, ok := resp.ParseInt(args[0]); !ok {
				return t, errNotInteger
			}
			return t, errNoRedirect
		default:
			return t, errSyntax
		}
	}
	return t, nil
}

// check returns an error for contradictory options, and for a change of mode while tracking is on.
func (t *tracking) check(old tracking) error {
	switch {
	case !t.on:
		return nil
	case len(t.prefixes) > 0 && !t.bcast:
		return replyError("ERR PREFIX option requires BCAST mode to be enabled")
	case old.on && old.bcast != t.bcast:
		return errTrackingMode
	case t.bcast && (t.optIn || t.optOut):
		return replyError("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.optIn && t.optOut:
		return errTrackingBoth
	case old.on && (old.optIn && t.optOut || old.optOut && t.optIn):
		return replyError("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	return checkPrefixes(t.prefixes)
}

func checkPrefixes(prefixes []string) error {
	for i, a := range prefixes {
		for _, b := range prefixes[i+1:] {
			if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
				return replyError("ERR Prefix '" + echo([]byte(a), maxEcho) + "' overlaps with another provided prefix '" +
					echo([]byte(b), maxEcho) + "'. Prefixes for a single client must not overlap.")
			}
		}
	}
	return nil
}

func cmdClientCaching(c *client, args [][]byte) error {
	t := &c.session.tracking
	if !t.on || !t.optIn && !t.optOut {
		return errCachingNoMode
	}
	switch {
	case isOneOf(args[2], "yes") && t.optIn, isOneOf(args[2], "no") && t.optOut:
		t.exceptNext = true
		c.out.OK()
		return nil
	case isOneOf(args[2], "yes"):
		return replyError("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case isOneOf(args[2], "no"):
		return replyError("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	}
	return errSyntax
}

func cmdClientTrackingInfo(c *client, _ [][]byte) error {
	t := &c.session.tracking
	c.out.Map(3)
	c.out.Text("flags")
	flags := t.flagNames()
	c.out.Set(len(flags))
	for _, f := range flags {
		c.out.Text(f)
	}
	c.out.Text("redirect")
	c.out.Int(t.redirect())
	c.out.Text("prefixes")
	replyTexts(&c.out, t.prefixes)
	return nil
}

func (t *tracking) flagNames() []string {
	if !t.on {
		return []string{"off"}
	}
	flags := []string{"on"}
	for _, f := range []struct {
		set  bool
		name string
	}{
		{t.bcast, "bcast"}, {t.optIn, "optin"}, {t.optIn && t.exceptNext, "caching-yes"},
		{t.optOut, "optout"}, {t.optOut && t.exceptNext, "caching-no"}, {t.noLoop, "noloop"},
	} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	return flags
}

// redirect returns the destination of invalidations: -1 if tracking is off, 0 for the connection itself.
func (t *tracking) redirect() int64 {
	if t.on {
		return 0
	}
	return -1
}

func cmdClientGetRedir(c *client, _ [][]byte) error {
	c.out.Int(c.session.tracking.redirect())
	return nil
}

// invalidate appends an invalidation of the keys that the client has just read, if its tracking mode requires an
// invalidation. RESP2 does not support invalidations on the same connection.
func (c *client) invalidate(keys [][]byte) {
	if tx := &c.session.tx; tx.running {
		tx.toInvalidate = append(tx.toInvalidate, keys...)
		return
	}
	t := &c.session.tracking
	exception := t.exceptNext
	t.exceptNext = false
	if t.bcast {
		keys = slices.DeleteFunc(keys, func(key []byte) bool { return !t.hasPrefix(key) })
	}
	if c.out.Protocol() != 3 || t.optIn && !exception || t.optOut && exception || len(keys) == 0 {
		return
	}
	c.out.Push(2)
	c.out.Text("invalidate")
	c.out.Array(len(keys))
	for _, key := range keys {
		c.out.Bulk(bytes.Clone(key))
	}
}

// hasPrefix reports whether a key begins with one of the prefixes.
func (t *tracking) hasPrefix(key []byte) bool {
	return slices.ContainsFunc(t.prefixes, func(prefix string) bool { return bytes.HasPrefix(key, []byte(prefix)) })
}
