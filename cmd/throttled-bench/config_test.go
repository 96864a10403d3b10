package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParseFlagsDefaults(t *testing.T) {
	c, err := parseFlags(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.targets) != 1 || c.targets[0].address != defaultTarget || c.conns != 50 || c.depth != 1 || c.rate != 0 ||
		c.duration != 10*time.Second || c.output != "text" || c.work.exhausted != nil {
		t.Errorf("without flags the config is %+v; want the documented defaults", c)
	}
	if got := c.work.regular.text; got != "CL.THROTTLE {key} 15 30 60" {
		t.Errorf("the default command is %q; want CL.THROTTLE with 15 30 60", got)
	}
}

func TestParseFlagsMeaning(t *testing.T) {
	f := func(holds func(c *config) bool, args ...string) {
		t.Helper()
		c, err := parseFlags(args, io.Discard)
		if err != nil || !holds(c) {
			t.Errorf("flags %q: error %v, config %+v; want no error, and the values that the flags set", args, err, c)
		}
	}
	f(func(c *config) bool { return c.duration == never && c.extent() == "5,000 requests" }, "-requests", "5000")
	f(func(c *config) bool { return c.duration == time.Second && c.extent() == "5 requests or 1s" }, "-requests", "5", "-duration", "1s")
	f(func(c *config) bool { return c.work.regular.text == "CL.THROTTLE {key} 1 2 3 4" }, "-limit", "1 2 3 4")
	f(func(c *config) bool {
		return c.work.denied == 0.25 && c.work.regular.text == "CL.THROTTLE {key} "+ampleLimit && strings.HasSuffix(c.work.exhausted.text, exhaustedLimit)
	}, "-denied", "0.25")
	f(func(c *config) bool { return c.work.regular.text == "CL.THROTTLE {key} 1 2 3" }, "-denied", "0", "-limit", "1 2 3")
	f(func(c *config) bool { return !c.work.regular.limiter && c.work.regular.text == "GET {key}" }, "-command", "GET {key}")
	f(func(c *config) bool { return c.work.dist == dist{zipfDist, 1.2} }, "-dist", "zipf:1.2")
	f(func(c *config) bool { return c.progress == "yes" }, "-progress")
	f(func(c *config) bool { return c.progress == "no" }, "-progress=false")
	f(func(c *config) bool { return c.plot == "a.SVG" }, "-plot", "a.SVG")
	f(func(c *config) bool { return len(c.targets) == 2 && c.targets[1].network == "unix" }, "localhost:1", "/run/x.sock")
}

func TestParseFlagsRefuses(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		if _, err := parseFlags(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one that contains %q", args, err, want)
		}
	}
	f("-conns 0: must be 1 to 50000", "-conns", "0")
	f("-depth 10001", "-depth", "10001")
	f("-threads 0", "-threads", "0")
	f("-rate -1", "-rate", "-1")
	f("-rate NaN", "-rate", "NaN")
	f("-duration 0s", "-duration", "0s")
	f("-requests -1", "-requests", "-1")
	f("-rounds 0", "-rounds", "0")
	f("-keys 0", "-keys", "0")
	f(`prefix "bench:" and the numbers of 1000 keys require 10`, "-keys", "1000", "-key-size", "9")
	f("-key-size 100000", "-key-size", "100000")
	f(`-dist "zip": must be uniform`, "-dist", "zip")
	f("exponent", "-dist", "zipf:0")
	f("exponent", "-dist", "zipf:x")
	f("must be uniform", "-dist", "hot:1")
	f("max_burst count period", "-limit", "15 30")
	f(`"x" is not an integer`, "-limit", "15 30 x")
	f("-denied \"1.5\": must be 0 to 1", "-denied", "1.5")
	f("must be 0 to 1", "-denied", "NaN")
	f("-limit applies to CL.THROTTLE only", "-command", "PING", "-limit", "1 2 3")
	f("-denied applies to CL.THROTTLE only", "-command", "PING", "-denied", "0.5")
	f("quotes", "-command", `SET {key} "x`)
	f("contains no command", "-command", " ")
	f(`-last " ": contains no command`, "-last", " ")
	f("-last cannot be combined with -rate", "-last", "WAIT 1 0", "-rate", "10")
	f(`-output "xml": must be one of csv, json, text`, "-output", "xml")
	f(`-plot ".pdf"`, "-plot", "x.pdf")
	f("must be host:port", "nohost")
	f("not defined", "-nope")
}

func TestParseFlagsHelp(t *testing.T) {
	var help strings.Builder
	if _, err := parseFlags([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("-h returns %v; want flag.ErrHelp", err)
	}
	for _, want := range []string{"Usage: throttled-bench", "-denied share", "-plot file", "-rate float"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help text does not contain %q", want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	f := func(s string, want target) {
		t.Helper()
		if got, err := parseTarget(s); err != nil || got != want {
			t.Errorf("parseTarget(%q) = %+v, error %v; want %+v", s, got, err, want)
		}
	}
	f("h:1", target{"h:1", "tcp", "h:1", "", ""})
	f(":6380", target{"127.0.0.1:6380", "tcp", "127.0.0.1:6380", "", ""})
	f("[::1]:6380", target{"[::1]:6380", "tcp", "[::1]:6380", "", ""})
	f("redis://h", target{"h:6379", "tcp", "h:6379", "", ""})
	f("redis://h:7/0", target{"h:7", "tcp", "h:7", "", ""})
	f("redis://:secret@h:7", target{"h:7", "tcp", "h:7", "", "secret"})
	f("redis://ann:s%40t@h:7", target{"h:7", "tcp", "h:7", "ann", "s@t"})
	f("/run/x", target{"/run/x", "unix", "/run/x", "", ""})
	f("./x", target{"./x", "unix", "./x", "", ""})
	f("unix:x", target{"x", "unix", "x", "", ""})
}

// TestParseTargetRefuses checks the errors for invalid targets, and that they do not
// contain the password.
func TestParseTargetRefuses(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		_, err := parseFlags([]string{s}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v; want one that contains %q and no password", s, err, want)
		}
	}
	f("h", "must be host:port")
	f("h:0", "1 to 65535")
	f("h:http", "1 to 65535")
	f("rediss://:secret@h:1", `scheme "rediss"`)
	f("redis://:secret@h:1/3", "database 0")
	f("redis://:secret%zz@h:1", "not a URL")
	f("redis://:secret@h:99999", "1 to 65535")
}
