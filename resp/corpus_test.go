package resp

import "strings"

var (
	// authenticatedLimits holds the limits of a server for an authenticated client.
	authenticatedLimits = Limits{Args: 1024, Bulk: 64 << 10, Inline: 64 << 10, Query: 1 << 20}
	// unauthenticatedLimits holds the limits of a server for an unauthenticated client.
	unauthenticatedLimits = Limits{Args: 10, Bulk: 16 << 10, Inline: 64 << 10, Query: 64 << 10, Unauthenticated: true}
)

// A sample is the input of one client, and the result that a Reader must return for it.
type sample struct {
	name   string
	limits Limits
	input  string
	want   string // the expected commands, each formatted with %q
	err    error
}

const ping = "*1\r\n$4\r\nPING\r\n"

// corpus has a row for each known form of valid or malformed request. The tests read these inputs whole and in pieces,
// and use them as seeds of the fuzzers.
var corpus = []sample{
	// Empty requests.
	{"empty line", authenticatedLimits, "\r\n", ``, nil},
	{"thousand empty lines", authenticatedLimits, strings.Repeat("\r\n", 1000) + "PING\r\n", `["PING"]`, nil},
	{"line of spaces", authenticatedLimits, " \t\v\f \r\nPING\r\n", `["PING"]`, nil},
	{"empty array", authenticatedLimits, "*0\r\n" + ping, `["PING"]`, nil},
	{"null array", authenticatedLimits, "*-1\r\n" + ping, `["PING"]`, nil},
	{"array of -10", authenticatedLimits, "*-10\r\n" + ping, `["PING"]`, nil},
	{"array of the smallest integer", authenticatedLimits, "*-9223372036854775808\r\n" + ping, `["PING"]`, nil},
	{"empty array after a command", authenticatedLimits, ping + "*0\r\n" + ping, `["PING"] ["PING"]`, nil},
	{"empty line after a command", authenticatedLimits, ping + "\r\n\n" + ping, `["PING"] ["PING"]`, nil},

	// Arrays.
	{"array of one", authenticatedLimits, ping, `["PING"]`, nil},
	{"array of ten", authenticatedLimits, "*10\r\n" + strings.Repeat("$1\r\na\r\n", 10), `["a" "a" "a" "a" "a" "a" "a" "a" "a" "a"]`, nil},
	{"throttle", authenticatedLimits, throttleCommand, `["CL.THROTTLE" "user:1234567:api:write" "15" "30" "60"]`, nil},
	{"any bytes", authenticatedLimits, "*2\r\n$3\r\n\x00\r\n\r\n$2\r\n\xff\xfe\r\n", `["\x00\r\n" "\xff\xfe"]`, nil},
	{"three digits", authenticatedLimits, "*1\r\n$200\r\n" + strings.Repeat("X", 200) + "\r\n", `["` + strings.Repeat("X", 200) + `"]`, nil},
	{"newline within an argument", authenticatedLimits, "*1\r\n$8\r\nfoo\r\nbar\r\n", `["foo\r\nbar"]`, nil},
	{"newline within a client's name", authenticatedLimits, "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\na\nb\r\n", `["CLIENT" "SETNAME" "a\nb"]`, nil},
	{"empty name", authenticatedLimits, "*1\r\n$0\r\n\r\n", `[""]`, nil},
	{"few arguments after many", authenticatedLimits, "*300\r\n" + strings.Repeat("$1\r\na\r\n", 300) + "*2\r\n$1\r\nb\r\n$1\r\nc\r\n",
		`["a"` + strings.Repeat(` "a"`, 299) + `] ["b" "c"]`, nil},
	{"empty line and inline request after an array", authenticatedLimits, "*1\r\n$4\r\nPING\r\n\nPING\n", `["PING"] ["PING"]`, nil},
	{"unfinished count", authenticatedLimits, ping + "*12\r", `["PING"]`, nil},
	{"unfinished array", authenticatedLimits, "*2\r\n$4\r\nPING\r\n", ``, nil},
	{"unfinished length", authenticatedLimits, "*2\r\n$4\r\nPING\r\n$1", ``, nil},
	{"unfinished argument", authenticatedLimits, "*2\r\n$4\r\nECHO\r\n$400\r\nx", ``, nil},

	// Counts.
	{"count with leading zeros", authenticatedLimits, "*0000000001\r\n$0004\r\nPING\r\n", ``, ErrCount},
	{"count 01", authenticatedLimits, "*01\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count -0", authenticatedLimits, "*-0\r\n" + ping, ``, ErrCount},
	{"count with a plus", authenticatedLimits, "*+1\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count after a space", authenticatedLimits, "* 1\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count before a space", authenticatedLimits, "*1 \r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of letters", authenticatedLimits, "*abc\r\n", ``, ErrCount},
	{"empty count", authenticatedLimits, "*\r\n", ``, ErrCount},
	{"empty count with LF only", authenticatedLimits, "*\n", ``, ErrCount},
	{"count that is only a sign", authenticatedLimits, "*-\r\n", ``, ErrCount},
	{"count with a fraction", authenticatedLimits, "*1.5\r\n", ``, ErrCount},
	{"hexadecimal count", authenticatedLimits, "*0x1\r\n", ``, ErrCount},
	{"count without CR", authenticatedLimits, "*1\n$4\nPING\n", ``, ErrCount},
	{"count with two CR", authenticatedLimits, "*1\r\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count 2^64+1 is not read as 1", authenticatedLimits, "*18446744073709551617\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of the largest integer", authenticatedLimits, "*9223372036854775807\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of 2^31-1", authenticatedLimits, "*2147483647\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of 2^31", authenticatedLimits, "*2147483648\r\n", ``, ErrCount},
	{"count of three billion", authenticatedLimits, "*3000000000\r\n", ``, ErrCount},
	{"count of a billion", authenticatedLimits, "*1000000000\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count without an end", authenticatedLimits, "*" + strings.Repeat("1", 70000), ``, ErrLongCount},

	// Lengths.
	{"empty length", authenticatedLimits, "*1\r\n$\r\n\r\n", ``, ErrLength},
	{"length -1", authenticatedLimits, "*1\r\n$-1\r\n", ``, ErrLength},
	{"length -0", authenticatedLimits, "*1\r\n$-0\r\n\r\n", ``, ErrLength},
	{"length -10", authenticatedLimits, "*2\r\n$4\r\nPING\r\n$-10\r\nx\r\n", ``, ErrLength},
	{"length with leading zeros", authenticatedLimits, "*1\r\n$0004\r\nPING\r\n", ``, ErrLength},
	{"length 04", authenticatedLimits, "*1\r\n$04\r\nPING\r\n", ``, ErrLength},
	{"length without CR", authenticatedLimits, "*1\r\n$4\nPING\r\n", ``, ErrLength},
	{"length of the largest integer", authenticatedLimits, "*1\r\n$9223372036854775807\r\nx", ``, ErrLength},
	{"length near the largest integer", authenticatedLimits, "*1\r\n$9223372036854775800\r\nx", ``, ErrLength},
	{"length of 2^63", authenticatedLimits, "*1\r\n$9223372036854775808\r\nx", ``, ErrLength},
	{"length 2^64+1 is not read as 1", authenticatedLimits, "*1\r\n$18446744073709551617\r\na\r\n", ``, ErrLength},
	{"length 2^64+4 is not read as 4", authenticatedLimits, "*1\r\n$18446744073709551620\r\nPING\r\n", ``, ErrLength},
	{"length of 512 MiB + 1", authenticatedLimits, "*1\r\n$536870913\r\n", ``, ErrLength},
	{"length of two billion", authenticatedLimits, "*1\r\n$2000000000\r\n", ``, ErrLength},
	{"length of 2^32", authenticatedLimits, "*1\r\n$4294967296\r\n", ``, ErrLength},
	{"length of 64 KiB + 1", authenticatedLimits, "*1\r\n$65537\r\n", ``, ErrLength},
	{"length without an end", authenticatedLimits, "*1\r\n$" + strings.Repeat("1", 70000), ``, ErrLongLength},

	// Arguments.
	{"argument longer than its length", authenticatedLimits, "*1\r\n$3\r\nPING\r\n", ``, ErrTrailer},
	{"argument shorter than its length", authenticatedLimits, "*1\r\n$5\r\nPING\r\n" + ping, ``, ErrTrailer},
	{"argument without CR LF", authenticatedLimits, "*1\r\n$4\r\nPINGxx" + ping, ``, ErrTrailer},
	{"argument with LF CR", authenticatedLimits, "*1\r\n$4\r\nPING\n\r" + ping, ``, ErrTrailer},
	{"argument with CR only", authenticatedLimits, "*1\r\n$4\r\nPING\r" + ping, ``, ErrTrailer},
	{"malformed command after a valid one", authenticatedLimits, ping + "*1\r\n$3\r\nPING\r\n" + ping, `["PING"]`, ErrTrailer},
	{"array within an array", authenticatedLimits, "*1\r\n" + ping, ``, ProtocolError("expected '$', got '*'")},
	{"integer within an array", authenticatedLimits, "*1\r\n:5\r\n", ``, ProtocolError("expected '$', got ':'")},
	{"status within an array", authenticatedLimits, "*1\r\n+PING\r\n", ``, ProtocolError("expected '$', got '+'")},
	{"CR in place of a dollar", authenticatedLimits, "*1\r\n\r\n", ``, ProtocolError(`expected '$', got '\x0d'`)},
	{"DEL in place of a dollar", authenticatedLimits, "*1\r\n\x7f", ``, ProtocolError(`expected '$', got '\x7f'`)},
	{"high byte in place of a dollar", authenticatedLimits, "*2\r\n$4\r\nPING\r\n\xff", ``, ProtocolError(`expected '$', got '\xff'`)},

	// Inline requests.
	{"inline", authenticatedLimits, "PING\r\n", `["PING"]`, nil},
	{"inline with LF", authenticatedLimits, "PING\n", `["PING"]`, nil},
	{"inline between spaces", authenticatedLimits, "  PING  \r\n", `["PING"]`, nil},
	{"inline with a tab", authenticatedLimits, "PING\tx\r\n", `["PING" "x"]`, nil},
	{"inline with a CR between words", authenticatedLimits, "PING\rx\r\r\n", `["PING" "x"]`, nil},
	{"inline with a vertical tab within a word", authenticatedLimits, "a\vb\f \vc\r\n", `["a\vb\f" "c"]`, nil},
	{"inline with a vertical tab after a quote", authenticatedLimits, "\"a\"\v'b'\f\r\n", `["a" "b"]`, nil},
	{"double quotes", authenticatedLimits, "PING \"a b\"\r\n", `["PING" "a b"]`, nil},
	{"empty quotes", authenticatedLimits, "PING \"\" ''\r\n", `["PING" "" ""]`, nil},
	{"hexadecimal escape", authenticatedLimits, `PING "a\x41\xfF\x4g\x"` + "\r\n", `["PING" "aA\xffx4gx"]`, nil},
	{"escapes", authenticatedLimits, `PING "\n\r\t\b\a\\\"\q\'"` + "\r\n", `["PING" "\n\r\t\b\a\\\"q'"]`, nil},
	{"single quotes", authenticatedLimits, `PING 'a\'b\n"\\c'` + "\r\n", `["PING" "a'b\\n\"\\\\c"]`, nil},
	{"backslash outside quotes", authenticatedLimits, `PING a\nb\x41` + "\r\n", `["PING" "a\\nb\\x41"]`, nil},
	{"quotes that start within a word", authenticatedLimits, `PING a"b c" d'e f'` + "\r\n", `["PING" "ab c" "de f"]`, nil},
	{"quotes that are not closed", authenticatedLimits, "PING \"a\r\n", ``, ErrQuotes},
	{"single quotes that are not closed", authenticatedLimits, "PING 'a\r\n", ``, ErrQuotes},
	{"escaped end of double quotes", authenticatedLimits, "PING \"a\\\"\r\n", ``, ErrQuotes},
	{"escaped end of single quotes", authenticatedLimits, "PING 'a\\\\'\r\n", ``, ErrQuotes},
	{"backslash at the end", authenticatedLimits, "PING \"a\\\r\n", ``, ErrQuotes},
	{"word after quotes", authenticatedLimits, "PING \"a\"b\r\n", ``, ErrQuotes},
	{"closing quote followed by a quote", authenticatedLimits, "PING 'a''b'\r\n", ``, ErrQuotes},
	{"NUL", authenticatedLimits, "\x00\r\n", ``, ErrControlByte},
	{"NUL within a word", authenticatedLimits, "PING\x00x\r\n", ``, ErrControlByte},
	{"escape byte within quotes", authenticatedLimits, "PING '\x1b[2J'\r\n", ``, ErrControlByte},
	{"TLS hello", authenticatedLimits, "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\n", ``, ErrControlByte},
	{"high bytes", authenticatedLimits, "\xff\xfe\xfd\r\n", `["\xff\xfe\xfd"]`, nil},
	{"inline without an end", authenticatedLimits, strings.Repeat("A", 70000), ``, ErrLongInline},
	{"inline that is too long", authenticatedLimits, strings.Repeat("A", 70000) + "\r\nPING\r\n", ``, ErrLongInline},
	{"inline with too many words", authenticatedLimits, strings.Repeat("a ", 1025) + "\r\n", ``, ErrManyInline},
	{"unfinished inline", authenticatedLimits, "PING\r\nPING \"a", `["PING"]`, nil},

	// Other protocols, and other types of this protocol, are read as inline requests.
	{"bulk string", authenticatedLimits, "$4\r\nPING\r\n", `["$4"] ["PING"]`, nil},
	{"status", authenticatedLimits, "+OK\r\n", `["+OK"]`, nil},
	{"error", authenticatedLimits, "-ERR x\r\n", `["-ERR" "x"]`, nil},
	{"integer", authenticatedLimits, ":1\r\n", `[":1"]`, nil},
	{"map", authenticatedLimits, "%1\r\n$1\r\na\r\n$1\r\nb\r\n", `["%1"] ["$1"] ["a"] ["$1"] ["b"]`, nil},
	{"set", authenticatedLimits, "~2\r\n$1\r\na\r\n$1\r\nb\r\n", `["~2"] ["$1"] ["a"] ["$1"] ["b"]`, nil},
	{"attribute", authenticatedLimits, "|1\r\n+k\r\n+v\r\n", `["|1"] ["+k"] ["+v"]`, nil},
	{"push", authenticatedLimits, ">2\r\n$1\r\na\r\n$1\r\nb\r\n", `[">2"] ["$1"] ["a"] ["$1"] ["b"]`, nil},
	{"null", authenticatedLimits, "_\r\n", `["_"]`, nil},
	{"big number", authenticatedLimits, "(123456789012345678901234567890\r\n", `["(123456789012345678901234567890"]`, nil},
	{"verbatim string", authenticatedLimits, "=15\r\ntxt:Some string\r\n", `["=15"] ["txt:Some" "string"]`, nil},
	{"HTTP GET", authenticatedLimits, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", `["GET" "/" "HTTP/1.1"] ["Host:" "x"]`, nil},
	{"HTTP POST", authenticatedLimits, "POST /x HTTP/1.1\r\nHost: a\r\n\r\nCL.THROTTLE k 1 1 1\r\n",
		`["POST" "/x" "HTTP/1.1"] ["Host:" "a"] ["CL.THROTTLE" "k" "1" "1" "1"]`, nil},
	{"HTTP header", authenticatedLimits, "Host: localhost\r\nPING\r\n", `["Host:" "localhost"] ["PING"]`, nil},
	{"SSH", authenticatedLimits, "SSH-2.0-x\r\n", `["SSH-2.0-x"]`, nil},

	// Unauthenticated clients.
	{"unauthenticated", unauthenticatedLimits, ping, `["PING"]`, nil},
	{"unauthenticated, large count", unauthenticatedLimits, "*11\r\n", ``, ErrUnauthenticatedCount},
	{"unauthenticated, large length", unauthenticatedLimits, "*2\r\n$4\r\nPING\r\n$16385\r\n", ``, ErrUnauthenticatedLength},
	{"unauthenticated, negative length", unauthenticatedLimits, "*1\r\n$-1\r\n", ``, ErrLength},
	{"unauthenticated, malformed count", unauthenticatedLimits, "*1x\r\n", ``, ErrCount},
	{"unauthenticated, wrong password", unauthenticatedLimits, "*2\r\n$4\r\nAUTH\r\n$3\r\nbad\r\n", `["AUTH" "bad"]`, nil},
	{"unauthenticated, AUTH without arguments", unauthenticatedLimits, "*1\r\n$4\r\nAUTH\r\n", `["AUTH"]`, nil},
	{"unauthenticated, AUTH with three arguments", unauthenticatedLimits, "*4\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", `["AUTH" "a" "b" "c"]`, nil},
	{"unauthenticated, HELLO", unauthenticatedLimits, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", `["HELLO" "3"]`, nil},
	{"unauthenticated, HELLO with a wrong password", unauthenticatedLimits,
		"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$3\r\nbad\r\n", `["HELLO" "3" "AUTH" "default" "bad"]`, nil},
	{"unauthenticated, HELLO with the password", unauthenticatedLimits,
		"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n", `["HELLO" "3" "AUTH" "default" "secret"]`, nil},
	{"HELLO 4", authenticatedLimits, "*2\r\n$5\r\nHELLO\r\n$1\r\n4\r\n", `["HELLO" "4"]`, nil},
	{"HELLO with many digits", authenticatedLimits, "*2\r\n$5\r\nHELLO\r\n$20\r\n99999999999999999999\r\n", `["HELLO" "99999999999999999999"]`, nil},
	{"HELLO with AUTH only", authenticatedLimits, "*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n", `["HELLO" "3" "AUTH"]`, nil},
	{"HELLO with a name", authenticatedLimits, "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$3\r\na b\r\n", `["HELLO" "3" "SETNAME" "a b"]`, nil},
	{"unauthenticated, inline with too many words", unauthenticatedLimits, "a b c d e f g h i j k\r\n", ``, ErrManyInline},

	// Limits so small that two of them apply to the same bytes. The lower one determines the error.
	{"short lines", Limits{Args: 4, Bulk: 10, Inline: 2, Query: 100}, "*1\r\n$1\r\na\r\n", ``, ErrLongCount},
	{"short queries", Limits{Args: 4, Bulk: 10, Inline: 50, Query: 13}, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", ``, ErrQueryTooLong},
	{"line limit above the query limit", Limits{Args: 4, Bulk: 10, Inline: 50, Query: 4}, "PING \"\r\n", ``, ErrQueryTooLong},
	{"all limits zero", Limits{}, "\n", ``, ErrQueryTooLong},
}
