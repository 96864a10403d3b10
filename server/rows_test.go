package server

import (
	"fmt"
	"strings"
)

// ending is the expected state of the connection after a row.
type ending uint8

const (
	open   ending = iota // the next command is answered
	closed               // closed after the reply
	cut                  // closed immediately; unwritten replies are dropped
)

// protocolRow is an input of one client and the expected result.
type protocolRow struct {
	id    string
	guest bool // the server has the password "secret", and the client is not authenticated
	known bool // the client has authenticated by the end of the row
	input string
	want  string // all replies; "<n>" matches any number
	end   ending
}

const ping = "*1\r\n$4\r\nPING\r\n"

// refused renders the reply to a protocol error.
func refused(reason string) string { return "-ERR Protocol error: " + reason + "\r\n" }

// unknown renders the reply to an unknown command.
func unknown(name string, args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-ERR unknown command '%s', with args beginning with: ", name)
	for _, arg := range args {
		fmt.Fprintf(&b, "'%s' ", arg)
	}
	return b.String() + "\r\n"
}

var (
	badCount   = refused("invalid multibulk length")
	badLength  = refused("invalid bulk length")
	badQuotes  = refused("unbalanced quotes in request")
	badTrailer = refused("expected CR LF after argument")
	badByte    = refused("control byte in inline request")

	ones = strings.Repeat("1", 70000)
)

// protocolRows contains valid and invalid protocol inputs. Where this server is stricter than Redis, the row expects
// the stricter result.
var protocolRows = []protocolRow{
	// Empty requests.
	{id: "P1", input: "\r\n"},
	{id: "P2", input: strings.Repeat("\r\n", 1000) + "PING\r\n", want: "+PONG\r\n"},
	{id: "P3", input: "*0\r\n" + ping, want: "+PONG\r\n"},
	{id: "P4", input: "*-1\r\n" + ping, want: "+PONG\r\n"},
	{id: "P5", input: "*-10\r\n" + ping, want: "+PONG\r\n"},

	// Counts and lengths have one valid form.
	{id: "P6", input: ping, want: "+PONG\r\n"},
	{id: "P7", input: "*0000000001\r\n$0004\r\nPING\r\n", want: badCount, end: closed},
	{id: "P8", input: "*+1\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P9", input: "* 1\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P10", input: "*1 \r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P11", input: "*abc\r\n", want: badCount, end: closed},
	{id: "P12", input: "*\r\n", want: badCount, end: closed},
	{id: "P13", input: "*1.5\r\n", want: badCount, end: closed},
	{id: "P14", input: "*0x1\r\n", want: badCount, end: closed},
	{id: "P15", input: "*1\r\n$\r\n\r\n", want: badLength, end: closed},
	{id: "P16", input: "*1\r\n$-1\r\n", want: badLength, end: closed},
	{id: "P17", input: "*1\r\n$-0\r\n\r\n", want: badLength, end: closed},
	{id: "P18", input: "*2\r\n$4\r\nPING\r\n$-10\r\nx\r\n", want: badLength, end: closed},

	// Lengths that do not match the data.
	{id: "P19", input: "*1\r\n$0\r\n\r\n", want: unknown("")},
	{id: "P20", input: "*1\r\n$3\r\nPING\r\n", want: badTrailer, end: closed},
	{id: "P21", input: "*1\r\n$5\r\nPING\r\n*1\r\n$4\r\nPING\r\n", want: badTrailer, end: closed},
	{id: "P22", input: "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", want: badTrailer, end: closed},

	// Line endings, and other types in place of an argument.
	{id: "P23", input: "*1\n$4\nPING\n", want: badCount, end: closed},
	{id: "P24", input: "*1\r\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P25", input: "*1\r\n*1\r\n$4\r\nPING\r\n", want: refused("expected '$', got '*'"), end: closed},
	{id: "P26", input: "*1\r\n:5\r\n", want: refused("expected '$', got ':'"), end: closed},
	{id: "P27", input: "*1\r\n+PING\r\n", want: refused("expected '$', got '+'"), end: closed},

	// Other protocol types are treated as inline requests with unknown commands.
	{id: "P28", input: "$4\r\nPING\r\n", want: unknown("$4") + "+PONG\r\n"},
	{id: "P29", input: "+OK\r\n", want: unknown("+OK")},
	{id: "P30", input: "-ERR x\r\n", want: unknown("-ERR", "x")},
	{id: "P31", input: ":1\r\n", want: unknown(":1")},
	{id: "P32", input: "%1\r\n$1\r\na\r\n$1\r\nb\r\n", want: unknown("%1") + unknown("$1") + unknown("a") + unknown("$1") + unknown("b")},
	{id: "P33", input: "~2\r\n$1\r\na\r\n$1\r\nb\r\n", want: unknown("~2") + unknown("$1") + unknown("a") + unknown("$1") + unknown("b")},
	{id: "P34", input: "|1\r\n+k\r\n+v\r\n", want: unknown("|1") + unknown("+k") + unknown("+v")},
	{id: "P35", input: ">2\r\n$1\r\na\r\n$1\r\nb\r\n", want: unknown(">2") + unknown("$1") + unknown("a") + unknown("$1") + unknown("b")},
	{id: "P36", input: "_\r\n", want: unknown("_")},
	{id: "P37", input: "(123456789012345678901234567890\r\n", want: unknown("(123456789012345678901234567890")},
	{id: "P38", input: "=15\r\ntxt:Some string\r\n", want: unknown("=15") + unknown("txt:Some", "string")},

	// Out-of-range numbers.
	{id: "P39", input: "*1\r\n$9223372036854775807\r\nx", want: badLength, end: closed},
	{id: "P40", input: "*1\r\n$9223372036854775800\r\nx", want: badLength, end: closed},
	{id: "P41", input: "*1\r\n$9223372036854775808\r\nx", want: badLength, end: closed},
	{id: "P42", input: "*1\r\n$18446744073709551617\r\na\r\n", want: badLength, end: closed},
	{id: "P43", input: "*1\r\n$18446744073709551620\r\nPING\r\n", want: badLength, end: closed},
	{id: "P44", input: "*18446744073709551617\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P45", input: "*9223372036854775807\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P46", input: "*2147483647\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P47", input: "*2147483648\r\n", want: badCount, end: closed},
	{id: "P48", input: "*3000000000\r\n", want: badCount, end: closed},
	{id: "P49", input: "*1000000000\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{id: "P50", input: "*1\r\n$536870913\r\n", want: badLength, end: closed},
	{id: "P51", input: "*1\r\n$2000000000\r\n", want: badLength, end: closed},
	{id: "P52", input: "*1\r\n$4294967296\r\n", want: badLength, end: closed},
	{id: "P53", input: "*1\r\n$524289\r\n", want: badLength, end: closed},
	{id: "P54", input: "*" + ones, want: refused("too big mbulk count string"), end: closed},
	{id: "P55", input: "*1\r\n$" + ones, want: refused("too big bulk count string"), end: closed},
	{id: "P56", input: strings.Repeat("A", 70000), want: refused("too big inline request"), end: closed},

	// Inline requests.
	{id: "P57", input: "PING\r\n", want: "+PONG\r\n"},
	{id: "P58", input: "PING\n", want: "+PONG\r\n"},
	{id: "P59", input: "  PING  \r\n", want: "+PONG\r\n"},
	{id: "P60", input: `PING "a b"` + "\r\n", want: "$3\r\na b\r\n"},
	{id: "P61", input: `PING "a\x41"` + "\r\n", want: "$2\r\naA\r\n"},
	{id: "P62", input: `PING 'a\'b'` + "\r\n", want: "$3\r\na'b\r\n"},
	{id: "P63", input: `PING "a` + "\r\n", want: badQuotes, end: closed},
	{id: "P64", input: `PING "a"b` + "\r\n", want: badQuotes, end: closed},
	{id: "P65", input: "PING\tx\r\n", want: "$1\r\nx\r\n"},
	{id: "P66", input: "\x00\r\n", want: badByte, end: closed},
	{id: "P67", input: "PING\x00x\r\n", want: badByte, end: closed},
	{id: "P68", input: "\xff\xfe\xfd\r\n", want: unknown(`\xff\xfe\xfd`)},

	// Other protocols.
	{id: "P69", input: "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\n", want: badByte, end: closed},
	{id: "P70", input: "GET / HTTP/1.1\r\nHost: x\r\n\r\n", want: unknown("GET", "/", "HTTP/1.1"), end: cut},
	{id: "P71", input: "POST /x HTTP/1.1\r\nHost: a\r\n\r\nCL.THROTTLE k 1 1 1\r\n", end: cut},
	{id: "P72", input: "Host: localhost\r\nPING\r\n", end: cut},
	{id: "P73", input: "SSH-2.0-x\r\n", want: unknown("SSH-2.0-x")},

	// Before authentication.
	{id: "P74", guest: true, input: ping, want: failure(errNoAuth)},
	{id: "P75", guest: true, input: "*11\r\n", want: refused("unauthenticated multibulk length"), end: closed},
	{id: "P76", guest: true, input: "*2\r\n$4\r\nPING\r\n$16385\r\n", want: refused("unauthenticated bulk length"), end: closed},
	{id: "P77", guest: true, input: request("AUTH", "bad"), want: failure(errWrongPass)},
	{id: "P78", guest: true, input: request("AUTH"), want: failure(errArity("auth"))},
	{id: "P79", guest: true, input: request("AUTH", "a", "b", "c"), want: failure(errSyntax)},
	{id: "P80", guest: true, input: request("HELLO", "3"), want: failure(errHelloNoAuth)},
	{id: "P81", guest: true, input: request("HELLO", "3", "AUTH", "default", "bad"), want: failure(errWrongPass)},
	{id: "P82", guest: true, known: true, input: request("HELLO", "3", "AUTH", "default", "secret"),
		want: "%7\r\n" + bulk("server") + bulk("redis") + bulk("version") + bulk(redisVersion) + bulk("proto") + ":3\r\n" +
			bulk("id") + ":<n>\r\n" + bulk("mode") + bulk("standalone") + bulk("role") + bulk("master") + bulk("modules") + "*1\r\n" +
			"%4\r\n" + bulk("name") + bulk(cellModule) + bulk("ver") + ":1\r\n" + bulk("path") + bulk("") + bulk("args") + "*0\r\n"},

	// HELLO and names.
	{id: "P83", input: request("HELLO", "4"), want: failure(errNoProto)},
	{id: "P84", input: request("HELLO", "99999999999999999999"), want: failure(errProtoNumber)},
	{id: "P85", input: request("HELLO", "3", "AUTH"), want: "-ERR Syntax error in HELLO option 'AUTH'\r\n"},
	{id: "P86", input: request("HELLO", "3", "SETNAME", "a b"), want: failure(errClientName)},
	{id: "P87", input: request("CLIENT", "SETNAME", "a\nb"), want: failure(errClientName)},

	// Request text that is quoted in errors.
	{id: "P88", input: request(strings.Repeat("X", 200)), want: unknown(strings.Repeat("X", 128))},
	{id: "P89", input: request("foo\r\nbar"), want: unknown("foo  bar")},
}
