package resp

import "strings"

var (
	// serving holds the limits of a server for an authenticated client.
	serving = Limits{Args: 1024, Bulk: 64 << 10, Inline: 64 << 10, Query: 1 << 20}
	// welcoming holds the limits of a server for an unauthenticated client.
	welcoming = Limits{Args: 10, Bulk: 16 << 10, Inline: 64 << 10, Query: 64 << 10, Guest: true}
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

// corpus has a row for each known kind of valid or malformed request. The tests read these inputs whole and in pieces,
// and use them as seeds of the fuzzers.
var corpus = []sample{
	// Empty requests.
	{"empty line", serving, "\r\n", ``, nil},
	{"thousand empty lines", serving, strings.Repeat("\r\n", 1000) + "PING\r\n", `["PING"]`, nil},
	{"line of spaces", serving, " \t\v\f \r\nPING\r\n", `["PING"]`, nil},
	{"empty array", serving, "*0\r\n" + ping, `["PING"]`, nil},
	{"null array", serving, "*-1\r\n" + ping, `["PING"]`, nil},
	{"array of -10", serving, "*-10\r\n" + ping, `["PING"]`, nil},
	{"array of the smallest integer", serving, "*-9223372036854775808\r\n" + ping, `["PING"]`, nil},
	{"empty array after a command", serving, ping + "*0\r\n" + ping, `["PING"] ["PING"]`, nil},
	{"empty line after a command", serving, ping + "\r\n\n" + ping, `["PING"] ["PING"]`, nil},

	// Arrays.
	{"array of one", serving, ping, `["PING"]`, nil},
	{"array of ten", serving, "*10\r\n" + strings.Repeat("$1\r\na\r\n", 10), `["a" "a" "a" "a" "a" "a" "a" "a" "a" "a"]`, nil},
	{"throttle", serving, throttleCommand, `["CL.THROTTLE" "user:1234567:api:write" "15" "30" "60"]`, nil},
	{"any bytes", serving, "*2\r\n$3\r\n\x00\r\n\r\n$2\r\n\xff\xfe\r\n", `["\x00\r\n" "\xff\xfe"]`, nil},
	{"three digits", serving, "*1\r\n$200\r\n" + strings.Repeat("X", 200) + "\r\n", `["` + strings.Repeat("X", 200) + `"]`, nil},
	{"newline within an argument", serving, "*1\r\n$8\r\nfoo\r\nbar\r\n", `["foo\r\nbar"]`, nil},
	{"newline within a client's name", serving, "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\na\nb\r\n", `["CLIENT" "SETNAME" "a\nb"]`, nil},
	{"empty name", serving, "*1\r\n$0\r\n\r\n", `[""]`, nil},
	{"few arguments after many", serving, "*300\r\n" + strings.Repeat("$1\r\na\r\n", 300) + "*2\r\n$1\r\nb\r\n$1\r\nc\r\n",
		`["a"` + strings.Repeat(` "a"`, 299) + `] ["b" "c"]`, nil},
	{"line after an array", serving, "*1\r\n$4\r\nPING\r\n\nPING\n", `["PING"] ["PING"]`, nil},
	{"unfinished count", serving, ping + "*12\r", `["PING"]`, nil},
	{"unfinished array", serving, "*2\r\n$4\r\nPING\r\n", ``, nil},
	{"unfinished length", serving, "*2\r\n$4\r\nPING\r\n$1", ``, nil},
	{"unfinished argument", serving, "*2\r\n$4\r\nECHO\r\n$400\r\nx", ``, nil},

	// Counts.
	{"count with leading zeros", serving, "*0000000001\r\n$0004\r\nPING\r\n", ``, ErrCount},
	{"count 01", serving, "*01\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count -0", serving, "*-0\r\n" + ping, ``, ErrCount},
	{"count with a plus", serving, "*+1\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count after a space", serving, "* 1\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count before a space", serving, "*1 \r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of letters", serving, "*abc\r\n", ``, ErrCount},
	{"empty count", serving, "*\r\n", ``, ErrCount},
	{"empty count with LF only", serving, "*\n", ``, ErrCount},
	{"count that is only a sign", serving, "*-\r\n", ``, ErrCount},
	{"count with a fraction", serving, "*1.5\r\n", ``, ErrCount},
	{"hexadecimal count", serving, "*0x1\r\n", ``, ErrCount},
	{"count without CR", serving, "*1\n$4\nPING\n", ``, ErrCount},
	{"count with two CR", serving, "*1\r\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count beyond 64 bits wraps to 1", serving, "*18446744073709551617\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of the largest integer", serving, "*9223372036854775807\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of 2^31-1", serving, "*2147483647\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count of 2^31", serving, "*2147483648\r\n", ``, ErrCount},
	{"count of three billion", serving, "*3000000000\r\n", ``, ErrCount},
	{"count of a billion", serving, "*1000000000\r\n$4\r\nPING\r\n", ``, ErrCount},
	{"count without an end", serving, "*" + strings.Repeat("1", 70000), ``, ErrLongCount},

	// Lengths.
	{"empty length", serving, "*1\r\n$\r\n\r\n", ``, ErrLength},
	{"length -1", serving, "*1\r\n$-1\r\n", ``, ErrLength},
	{"length -0", serving, "*1\r\n$-0\r\n\r\n", ``, ErrLength},
	{"length -10", serving, "*2\r\n$4\r\nPING\r\n$-10\r\nx\r\n", ``, ErrLength},
	{"length with leading zeros", serving, "*1\r\n$0004\r\nPING\r\n", ``, ErrLength},
	{"length 04", serving, "*1\r\n$04\r\nPING\r\n", ``, ErrLength},
	{"length without CR", serving, "*1\r\n$4\nPING\r\n", ``, ErrLength},
	{"length of the largest integer", serving, "*1\r\n$9223372036854775807\r\nx", ``, ErrLength},
	{"length near the largest integer", serving, "*1\r\n$9223372036854775800\r\nx", ``, ErrLength},
	{"length of 2^63", serving, "*1\r\n$9223372036854775808\r\nx", ``, ErrLength},
	{"length beyond 64 bits wraps to 1", serving, "*1\r\n$18446744073709551617\r\na\r\n", ``, ErrLength},
	{"length beyond 64 bits wraps to 4", serving, "*1\r\n$18446744073709551620\r\nPING\r\n", ``, ErrLength},
	{"length of 512 MiB + 1", serving, "*1\r\n$536870913\r\n", ``, ErrLength},
	{"length of two billion", serving, "*1\r\n$2000000000\r\n", ``, ErrLength},
	{"length of 2^32", serving, "*1\r\n$4294967296\r\n", ``, ErrLength},
	{"length of 64 KiB + 1", serving, "*1\r\n$65537\r\n", ``, ErrLength},
	{"length without an end", serving, "*1\r\n$" + strings.Repeat("1", 70000), ``, ErrLongLength},

	// Arguments.
	{"argument longer than its length", serving, "*1\r\n$3\r\nPING\r\n", ``, ErrTrailer},
	{"argument shorter than its length", serving, "*1\r\n$5\r\nPING\r\n" + ping, ``, ErrTrailer},
	{"argument without CR LF", serving, "*1\r\n$4\r\nPINGxx" + ping, ``, ErrTrailer},
	{"argument with LF CR", serving, "*1\r\n$4\r\nPING\n\r" + ping, ``, ErrTrailer},
	{"argument with CR only", serving, "*1\r\n$4\r\nPING\r" + ping, ``, ErrTrailer},
	{"malformed command after a valid one", serving, ping + "*1\r\n$3\r\nPING\r\n" + ping, `["PING"]`, ErrTrailer},
	{"array within an array", serving, "*1\r\n" + ping, ``, ProtocolError("expected '$', got '*'")},
	{"integer within an array", serving, "*1\r\n:5\r\n", ``, ProtocolError("expected '$', got ':'")},
	{"status within an array", serving, "*1\r\n+PING\r\n", ``, ProtocolError("expected '$', got '+'")},
	{"CR in place of a dollar", serving, "*1\r\n\r\n", ``, ProtocolError(`expected '$', got '\x0d'`)},
	{"DEL in place of a dollar", serving, "*1\r\n\x7f", ``, ProtocolError(`expected '$', got '\x7f'`)},
	{"high byte in place of a dollar", serving, "*2\r\n$4\r\nPING\r\n\xff", ``, ProtocolError(`expected '$', got '\xff'`)},

	// Inline requests.
	{"inline", serving, "PING\r\n", `["PING"]`, nil},
	{"inline with LF", serving, "PING\n", `["PING"]`, nil},
	{"inline between spaces", serving, "  PING  \r\n", `["PING"]`, nil},
	{"inline with a tab", serving, "PING\tx\r\n", `["PING" "x"]`, nil},
	{"inline with a CR between words", serving, "PING\rx\r\r\n", `["PING" "x"]`, nil},
	{"inline with a vertical tab within a word", serving, "a\vb\f \vc\r\n", `["a\vb\f" "c"]`, nil},
	{"inline with a vertical tab after a quote", serving, "\"a\"\v'b'\f\r\n", `["a" "b"]`, nil},
	{"double quotes", serving, "PING \"a b\"\r\n", `["PING" "a b"]`, nil},
	{"empty quotes", serving, "PING \"\" ''\r\n", `["PING" "" ""]`, nil},
	{"hexadecimal escape", serving, `PING "a\x41\xfF\x4g\x"` + "\r\n", `["PING" "aA\xffx4gx"]`, nil},
	{"escapes", serving, `PING "\n\r\t\b\a\\\"\q\'"` + "\r\n", `["PING" "\n\r\t\b\a\\\"q'"]`, nil},
	{"single quotes", serving, `PING 'a\'b\n"\\c'` + "\r\n", `["PING" "a'b\\n\"\\\\c"]`, nil},
	{"backslash outside quotes", serving, `PING a\nb\x41` + "\r\n", `["PING" "a\\nb\\x41"]`, nil},
	{"quotes that start within a word", serving, `PING a"b c" d'e f'` + "\r\n", `["PING" "ab c" "de f"]`, nil},
	{"quotes that are not closed", serving, "PING \"a\r\n", ``, ErrQuotes},
	{"single quotes that are not closed", serving, "PING 'a\r\n", ``, ErrQuotes},
	{"escaped end of double quotes", serving, "PING \"a\\\"\r\n", ``, ErrQuotes},
	{"escaped end of single quotes", serving, "PING 'a\\\\'\r\n", ``, ErrQuotes},
	{"backslash at the end", serving, "PING \"a\\\r\n", ``, ErrQuotes},
	{"word after quotes", serving, "PING \"a\"b\r\n", ``, ErrQuotes},
	{"quotes after quotes", serving, "PING 'a''b'\r\n", ``, ErrQuotes},
	{"NUL", serving, "\x00\r\n", ``, ErrControlByte},
	{"NUL within a word", serving, "PING\x00x\r\n", ``, ErrControlByte},
	{"escape byte within quotes", serving, "PING '\x1b[2J'\r\n", ``, ErrControlByte},
	{"TLS hello", serving, "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\n", ``, ErrControlByte},
	{"high bytes", serving, "\xff\xfe\xfd\r\n", `["\xff\xfe\xfd"]`, nil},
	{"inline without an end", serving, strings.Repeat("A", 70000), ``, ErrLongInline},
	{"inline that is too long", serving, strings.Repeat("A", 70000) + "\r\nPING\r\n", ``, ErrLongInline},
	{"inline with too many words", serving, strings.Repeat("a ", 1025) + "\r\n", ``, ErrManyInline},
	{"unfinished inline", serving, "PING\r\nPING \"a", `["PING"]`, nil},

	// Other protocols, and other types of this protocol, are read as inline requests.
	{"bulk string", serving, "$4\r\nPING\r\n", `["$4"] ["PING"]`, nil},
	{"status", serving, "+OK\r\n", `["+OK"]`, nil},
	{"error", serving, "-ERR x\r\n", `["-ERR" "x"]`, nil},
	{"integer", serving, ":1\r\n", `[":1"]`, nil},
	{"map", serving, "%1\r\n$1\r\na\r\n$1\r\nb\r\n", `["%1"] ["$1"] ["a"] ["$1"] ["b"]`, nil},
	{"set", serving, "~2\r\n$1\r\na\r\n$1\r\nb\r\n", `["~2"] ["$1"] ["a"] ["$1"] ["b"]`, nil},
	{"attribute", serving, "|1\r\n+k\r\n+v\r\n", `["|1"] ["+k"] ["+v"]`, nil},
	{"push", serving, ">2\r\n$1\r\na\r\n$1\r\nb\r\n", `[">2"] ["$1"] ["a"] ["$1"] ["b"]`, nil},
	{"null", serving, "_\r\n", `["_"]`, nil},
	{"big number", serving, "(123456789012345678901234567890\r\n", `["(123456789012345678901234567890"]`, nil},
	{"verbatim string", serving, "=15\r\ntxt:Some string\r\n", `["=15"] ["txt:Some" "string"]`, nil},
	{"HTTP GET", serving, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", `["GET" "/" "HTTP/1.1"] ["Host:" "x"]`, nil},
	{"HTTP POST", serving, "POST /x HTTP/1.1\r\nHost: a\r\n\r\nCL.THROTTLE k 1 1 1\r\n",
		`["POST" "/x" "HTTP/1.1"] ["Host:" "a"] ["CL.THROTTLE" "k" "1" "1" "1"]`, nil},
	{"HTTP header", serving, "Host: localhost\r\nPING\r\n", `["Host:" "localhost"] ["PING"]`, nil},
	{"SSH", serving, "SSH-2.0-x\r\n", `["SSH-2.0-x"]`, nil},

	// Unauthenticated clients.
	{"unauthenticated", welcoming, ping, `["PING"]`, nil},
	{"unauthenticated, large count", welcoming, "*11\r\n", ``, ErrGuestCount},
	{"unauthenticated, large length", welcoming, "*2\r\n$4\r\nPING\r\n$16385\r\n", ``, ErrGuestLength},
	{"unauthenticated, negative length", welcoming, "*1\r\n$-1\r\n", ``, ErrLength},
	{"unauthenticated, malformed count", welcoming, "*1x\r\n", ``, ErrCount},
	{"unauthenticated, wrong password", welcoming, "*2\r\n$4\r\nAUTH\r\n$3\r\nbad\r\n", `["AUTH" "bad"]`, nil},
	{"unauthenticated, AUTH without arguments", welcoming, "*1\r\n$4\r\nAUTH\r\n", `["AUTH"]`, nil},
	{"unauthenticated, AUTH with three arguments", welcoming, "*4\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", `["AUTH" "a" "b" "c"]`, nil},
	{"unauthenticated, HELLO", welcoming, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", `["HELLO" "3"]`, nil},
	{"unauthenticated, HELLO with a wrong password", welcoming,
		"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$3\r\nbad\r\n", `["HELLO" "3" "AUTH" "default" "bad"]`, nil},
	{"unauthenticated, HELLO with the password", welcoming,
		"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n", `["HELLO" "3" "AUTH" "default" "secret"]`, nil},
	{"HELLO 4", serving, "*2\r\n$5\r\nHELLO\r\n$1\r\n4\r\n", `["HELLO" "4"]`, nil},
	{"HELLO with many digits", serving, "*2\r\n$5\r\nHELLO\r\n$20\r\n99999999999999999999\r\n", `["HELLO" "99999999999999999999"]`, nil},
	{"HELLO with AUTH only", serving, "*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n", `["HELLO" "3" "AUTH"]`, nil},
	{"HELLO with a name", serving, "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$3\r\na b\r\n", `["HELLO" "3" "SETNAME" "a b"]`, nil},
	{"unauthenticated, inline with too many words", welcoming, "a b c d e f g h i j k\r\n", ``, ErrManyInline},

	// Limits so small that two of them apply to the same bytes. The lower one determines the error.
	{"short lines", Limits{Args: 4, Bulk: 10, Inline: 2, Query: 100}, "*1\r\n$1\r\na\r\n", ``, ErrLongCount},
	{"short queries", Limits{Args: 4, Bulk: 10, Inline: 50, Query: 13}, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", ``, ErrQueryTooLong},
	{"line limit above the query limit", Limits{Args: 4, Bulk: 10, Inline: 50, Query: 4}, "PING \"\r\n", ``, ErrQueryTooLong},
	{"all limits zero", Limits{}, "\n", ``, ErrQueryTooLong},
}
