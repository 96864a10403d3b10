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
	unauthenticated bool // the server has the password "secret", and the client is not authenticated
	known           bool // the client has authenticated by the end of the row
	input           string
	want            string // all replies; "<n>" matches any number
	end             ending
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
	{input: "\r\n"},
	{input: strings.Repeat("\r\n", 1000) + "PING\r\n", want: "+PONG\r\n"},
	{input: "*0\r\n" + ping, want: "+PONG\r\n"},
	{input: "*-1\r\n" + ping, want: "+PONG\r\n"},
	{input: "*-10\r\n" + ping, want: "+PONG\r\n"},

	// Counts and lengths have one valid form.
	{input: ping, want: "+PONG\r\n"},
	{input: "*0000000001\r\n$0004\r\nPING\r\n", want: badCount, end: closed},
	{input: "*+1\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "* 1\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*1 \r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*abc\r\n", want: badCount, end: closed},
	{input: "*\r\n", want: badCount, end: closed},
	{input: "*1.5\r\n", want: badCount, end: closed},
	{input: "*0x1\r\n", want: badCount, end: closed},
	{input: "*1\r\n$\r\n\r\n", want: badLength, end: closed},
	{input: "*1\r\n$-1\r\n", want: badLength, end: closed},
	{input: "*1\r\n$-0\r\n\r\n", want: badLength, end: closed},
	{input: "*2\r\n$4\r\nPING\r\n$-10\r\nx\r\n", want: badLength, end: closed},

	// Lengths that do not match the data.
	{input: "*1\r\n$0\r\n\r\n", want: unknown("")},
	{input: "*1\r\n$3\r\nPING\r\n", want: badTrailer, end: closed},
	{input: "*1\r\n$5\r\nPING\r\n*1\r\n$4\r\nPING\r\n", want: badTrailer, end: closed},
	{input: "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", want: badTrailer, end: closed},

	// Wrong line endings, and other types in place of an argument.
	{input: "*1\n$4\nPING\n", want: badCount, end: closed},
	{input: "*1\r\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*1\r\n*1\r\n$4\r\nPING\r\n", want: refused("expected '$', got '*'"), end: closed},
	{input: "*1\r\n:5\r\n", want: refused("expected '$', got ':'"), end: closed},
	{input: "*1\r\n+PING\r\n", want: refused("expected '$', got '+'"), end: closed},

	// RESP types other than arrays are treated as inline requests with unknown commands.
	{input: "$4\r\nPING\r\n", want: unknown("$4") + "+PONG\r\n"},
	{input: "+OK\r\n", want: unknown("+OK")},
	{input: "-ERR x\r\n", want: unknown("-ERR", "x")},
	{input: ":1\r\n", want: unknown(":1")},
	{input: "%1\r\n$1\r\na\r\n$1\r\nb\r\n", want: unknown("%1") + unknown("$1") + unknown("a") + unknown("$1") + unknown("b")},
	{input: "~2\r\n$1\r\na\r\n$1\r\nb\r\n", want: unknown("~2") + unknown("$1") + unknown("a") + unknown("$1") + unknown("b")},
	{input: "|1\r\n+k\r\n+v\r\n", want: unknown("|1") + unknown("+k") + unknown("+v")},
	{input: ">2\r\n$1\r\na\r\n$1\r\nb\r\n", want: unknown(">2") + unknown("$1") + unknown("a") + unknown("$1") + unknown("b")},
	{input: "_\r\n", want: unknown("_")},
	{input: "(123456789012345678901234567890\r\n", want: unknown("(123456789012345678901234567890")},
	{input: "=15\r\ntxt:Some string\r\n", want: unknown("=15") + unknown("txt:Some", "string")},

	// Out-of-range numbers.
	{input: "*1\r\n$9223372036854775807\r\nx", want: badLength, end: closed},
	{input: "*1\r\n$9223372036854775800\r\nx", want: badLength, end: closed},
	{input: "*1\r\n$9223372036854775808\r\nx", want: badLength, end: closed},
	{input: "*1\r\n$18446744073709551617\r\na\r\n", want: badLength, end: closed},
	{input: "*1\r\n$18446744073709551620\r\nPING\r\n", want: badLength, end: closed},
	{input: "*18446744073709551617\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*9223372036854775807\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*2147483647\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*2147483648\r\n", want: badCount, end: closed},
	{input: "*3000000000\r\n", want: badCount, end: closed},
	{input: "*1000000000\r\n$4\r\nPING\r\n", want: badCount, end: closed},
	{input: "*1\r\n$536870913\r\n", want: badLength, end: closed},
	{input: "*1\r\n$2000000000\r\n", want: badLength, end: closed},
	{input: "*1\r\n$4294967296\r\n", want: badLength, end: closed},
	{input: "*1\r\n$524289\r\n", want: badLength, end: closed},
	{input: "*" + ones, want: refused("too big mbulk count string"), end: closed},
	{input: "*1\r\n$" + ones, want: refused("too big bulk count string"), end: closed},
	{input: strings.Repeat("A", 70000), want: refused("too big inline request"), end: closed},

	// Inline requests.
	{input: "PING\r\n", want: "+PONG\r\n"},
	{input: "PING\n", want: "+PONG\r\n"},
	{input: "  PING  \r\n", want: "+PONG\r\n"},
	{input: `PING "a b"` + "\r\n", want: "$3\r\na b\r\n"},
	{input: `PING "a\x41"` + "\r\n", want: "$2\r\naA\r\n"},
	{input: `PING 'a\'b'` + "\r\n", want: "$3\r\na'b\r\n"},
	{input: `PING "a` + "\r\n", want: badQuotes, end: closed},
	{input: `PING "a"b` + "\r\n", want: badQuotes, end: closed},
	{input: "PING\tx\r\n", want: "$1\r\nx\r\n"},
	{input: "\x00\r\n", want: badByte, end: closed},
	{input: "PING\x00x\r\n", want: badByte, end: closed},
	{input: "\xff\xfe\xfd\r\n", want: unknown(`\xff\xfe\xfd`)},

	// TLS, HTTP and SSH.
	{input: "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\n", want: badByte, end: closed},
	{input: "GET / HTTP/1.1\r\nHost: x\r\n\r\n", want: unknown("GET", "/", "HTTP/1.1"), end: cut},
	{input: "POST /x HTTP/1.1\r\nHost: a\r\n\r\nCL.THROTTLE k 1 1 1\r\n", end: cut},
	{input: "Host: localhost\r\nPING\r\n", end: cut},
	{input: "SSH-2.0-x\r\n", want: unknown("SSH-2.0-x")},

	// Before authentication.
	{unauthenticated: true, input: ping, want: failure(errNoAuth)},
	{unauthenticated: true, input: "*11\r\n", want: refused("unauthenticated multibulk length"), end: closed},
	{unauthenticated: true, input: "*2\r\n$4\r\nPING\r\n$16385\r\n", want: refused("unauthenticated bulk length"), end: closed},
	{unauthenticated: true, input: request("AUTH", "bad"), want: failure(errWrongPass)},
	{unauthenticated: true, input: request("AUTH"), want: failure(errArity("auth"))},
	{unauthenticated: true, input: request("AUTH", "a", "b", "c"), want: failure(errSyntax)},
	{unauthenticated: true, input: request("HELLO", "3"), want: failure(errHelloNoAuth)},
	{unauthenticated: true, input: request("HELLO", "3", "AUTH", "default", "bad"), want: failure(errWrongPass)},
	{unauthenticated: true, known: true, input: request("HELLO", "3", "AUTH", "default", "secret"),
		want: "%7\r\n" + bulk("server") + bulk("redis") + bulk("version") + bulk(redisVersion) + bulk("proto") + ":3\r\n" +
			bulk("id") + ":<n>\r\n" + bulk("mode") + bulk("standalone") + bulk("role") + bulk("master") + bulk("modules") + "*1\r\n" +
			"%4\r\n" + bulk("name") + bulk(cellModule) + bulk("ver") + ":1\r\n" + bulk("path") + bulk("") + bulk("args") + "*0\r\n"},

	// HELLO and names.
	{input: request("HELLO", "4"), want: failure(errNoProto)},
	{input: request("HELLO", "99999999999999999999"), want: failure(errProtoNumber)},
	{input: request("HELLO", "3", "AUTH"), want: "-ERR Syntax error in HELLO option 'AUTH'\r\n"},
	{input: request("HELLO", "3", "SETNAME", "a b"), want: failure(errClientName)},
	{input: request("CLIENT", "SETNAME", "a\nb"), want: failure(errClientName)},

	// Request text that is quoted in errors.
	{input: request(strings.Repeat("X", 200)), want: unknown(strings.Repeat("X", 128))},
	{input: request("foo\r\nbar"), want: unknown("foo  bar")},
}
