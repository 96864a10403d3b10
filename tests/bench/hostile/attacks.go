package main

import (
	"fmt"
	"strings"
)

// The valid beginnings of requests, which the attacks complete with something malformed.
const (
	checkLine    = "GET /check/traefik/edge HTTP/1.1\r\n"
	throttleLine = "POST /v1/throttle HTTP/1.1\r\n"
	batchLine    = "POST /v1/check/batch HTTP/1.1\r\n"
	host         = "Host: 127.0.0.1\r\n"
	jsonType     = "Content-Type: application/json\r\n"
	forwarded    = "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Method: GET\r\n"
	forwardedURI = "X-Forwarded-Uri: /api/x\r\n"
	body         = `{"key":"h","max_burst":15,"count_per_period":30,"period":60}`
)

// attacks returns all attacks except the slow ones. Their names are unique.
func attacks() []attack {
	var list []attack
	add := func(group string, texts ...string) {
		for i, text := range texts {
			list = append(list, attack{name: fmt.Sprintf("%s %d", group, i), text: text})
		}
	}
	for _, line := range []string{checkLine, throttleLine, batchLine, "GET /healthz HTTP/1.1\r\n"} {
		add("smuggling "+line[:20], each(framings, func(f string) string {
			return line + host + jsonType + forwarded + forwardedURI + f
		})...)
		add("header "+line[:20], each(badHeaders, func(h string) string {
			return line + host + jsonType + forwarded + forwardedURI + h + "\r\nContent-Length: 0\r\n\r\n"
		})...)
	}
	add("path", each(paths, func(p string) string {
		return checkLine + host + forwarded + "X-Forwarded-Uri: " + p + "\r\n\r\n"
	})...)
	add("target", each(paths, func(p string) string { return "GET " + p + " HTTP/1.1\r\n" + host + "\r\n" })...)
	add("envoy", each(paths, func(p string) string { return "GET /check/envoy/edge" + p + " HTTP/1.1\r\n" + host + "\r\n" })...)
	add("line", each(requestLines, func(l string) string { return l + host + "\r\n" })...)
	add("json", each(documents(), func(d string) string {
		return throttleLine + host + jsonType + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(d)) + d
	})...)
	add("size", oversized()...)
	return append(list, grpcAttacks()...)
}

func each(list []string, complete func(string) string) []string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = complete(item)
	}
	return texts
}

// second is a request that a smuggling attack hides in the body of the first one.
const second = "POST /v1/throttle HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\nevil"

// framings have contradictory or malformed lengths of bodies.
var framings = []string{
	"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
	"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nG",
	"Content-Length: 4\r\nContent-Length: 60\r\n\r\nabcd" + second,
	"Content-Length: 60, 4\r\n\r\n" + body,
	"Content-Length: +60\r\n\r\n" + body,
	"Content-Length: -1\r\n\r\n" + body,
	"Content-Length: 0x3c\r\n\r\n" + body,
	"Content-Length: 99999999999999999999\r\n\r\n" + body,
	"Content-Length : 60\r\n\r\n" + body,
	"Content-Length:\r\n 60\r\n\r\n" + body,
	"Content-Length: 60\n\n" + body,
	"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
	"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", 20_000) + "\r\nabcde\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n" + second,
	"X: y\r\nTransfer-Encoding\r\n: chunked\r\n\r\n0\r\n\r\n",
	"\x0bTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"Expect: 100-continue\r\nContent-Length: 60\r\n\r\n",
	"Expect: 200-maybe\r\nContent-Length: 60\r\n\r\n" + body,
}

// badHeaders are malformed, repeated or misleading header fields.
var badHeaders = []string{
	"X-Forwarded-Method: DELETE", "X-Forwarded-Uri: /other", "X-Forwarded-Host: evil.example", "X-Forwarded-For: 1.2.3.4, \x00",
	"X-Forwarded-For: " + strings.Repeat("1.1.1.1, ", 900) + "1.1.1.1", "Host: evil.example", "Host: a\r\nHost: b", "Origin: https://evil.example",
	"Authorization: Bearer " + strings.Repeat("x", 4000), "Authorization: Basic !!!", "Cookie: " + strings.Repeat("a=b; ", 1500),
	"X-Bad\x00: 1", "X Bad: 1", ": 1", "X-Bad: a\x00b", "X-Bad: a\rb", "\x80\x81: 1", "X-Folded: a\r\n b", "Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
	"Connection: close, X-Forwarded-For", "Trailer: X-Forwarded-Uri", "Accept-Encoding: " + strings.Repeat("gzip, ", 1000), "Range: bytes=0-,0-,0-",
	"X-Original-URI: /other", "X-HTTP-Method-Override: DELETE", "X-Throttled-Token: guess",
}

// paths try to evade rules for paths, or to break their normalization.
var paths = []string{
	"/../../etc/passwd", "/api/../admin", "/api/%2e%2e/admin", "/api/%252e%252e/admin", "/api//x", "/api/./x", "/api/..;/admin", "/api;x=1/y",
	"/%61pi/x", "/api%2fx", "/api%5cx", "/api\\x", "/api/%00", "/api/%", "/api/%g1", "/api/%u002e", "/API/x", "/api/x?q=%00", "/api/x#f", "//evil.example/x",
	"/" + strings.Repeat("a/", 3000), "/" + strings.Repeat("../", 3000), "/" + strings.Repeat("%2e%2e%2f", 900), "/api/\xff\xfe", "/api/%c0%ae%c0%ae/",
	"http://evil.example/api", "*", "api/x", "?", "/api/x\tb", "/check/traefik/../../v1/rules", "/check//edge", "/check/none/edge", "/check/traefik/" + strings.Repeat("d", 300),
}

// requestLines are malformed first lines.
var requestLines = []string{
	"GET\r\n", "GET /\r\n", "GET / HTTP/1.2\r\n", "GET / HTTP/0.9\r\n", "GET / HTTP/9.9\r\n", "GET / HTTP/1.1 x\r\n", "get /healthz HTTP/1.1\r\n",
	" GET /healthz HTTP/1.1\r\n", "\r\n\r\n\r\nGET /healthz HTTP/1.1\r\n", "GET  /healthz HTTP/1.1\r\n", "CONNECT evil.example:443 HTTP/1.1\r\n", "TRACE /healthz HTTP/1.1\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /healthz HTTP/1.1\r\n",
	"\r\n\x00\r\nQUIT\n", "*1\r\n$4\r\nPING\r\n", strings.Repeat("A", 70_000), strings.Repeat("\x00", 5000), "GET /healthz HTTP/1.1\n",
}

// documents are bodies that are not valid requests.
func documents() []string {
	return []string{
		"", "{", "null", "[]", "1", `"x"`, "{}", "{}{}", body + "x", body[:len(body)-1] + `,"unknown":1}`, body[:len(body)-1] + `,"key":"twice"}`,
		`{"key":1}`, `{"key":"a","max_burst":1e400}`, `{"key":"a","max_burst":99999999999999999999}`, `{"key":"a","max_burst":-1,"count_per_period":1,"period":1}`,
		`{"key":"a","max_burst":1.5,"count_per_period":1,"period":1}`, `{"key":"\ud800","max_burst":1,"count_per_period":1,"period":1}`, "{\"key\":\"\xff\"}",
		strings.Repeat("[", 60_000), strings.Repeat(`{"a":`, 12_000), `{"key":"` + strings.Repeat("k", 60_000) + `"}`, `{"key":"` + strings.Repeat("k", 200_000) + `"}`,
		strings.Repeat(" ", 60_000) + body, "\xef\xbb\xbf" + body, `{"key":"a","max_burst":"15"}`, `{"KEY":"a","MAX_BURST":1}`, "key=a&max_burst=1", "<x/>",
	}
}

// oversized are requests with too many or too long parts.
func oversized() []string {
	return []string{
		checkLine + host + "X-Long: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		checkLine + host + strings.Repeat("X-Many: y\r\n", 20_000) + "\r\n",
		checkLine + strings.Repeat("X"+strings.Repeat("n", 60)+": y\r\n", 5000) + "\r\n",
		"GET /" + strings.Repeat("u", 1<<20) + " HTTP/1.1\r\n" + host + "\r\n",
		throttleLine + host + jsonType + "Content-Length: 10000000\r\n\r\n" + strings.Repeat("x", 1<<20),
		throttleLine + host + jsonType + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 100_000),
		strings.Repeat(checkLine+host+"\r\n", 2000),
		strings.Repeat("GET /metrics HTTP/1.1\r\n"+host+"\r\n", 50),
		checkLine + host + forwarded + forwardedURI + "Content-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1<<20),
		checkLine + host + strings.Repeat("Cookie: "+strings.Repeat("c=d; ", 200)+"\r\n", 60) + "\r\n",
	}
}

// slowAttacks are sent byte by byte.
var slowAttacks = []attack{
	{name: "slow header", text: checkLine + host + strings.Repeat("X-Slow: y\r\n", 100)},
	{name: "slow body", text: throttleLine + host + jsonType + "Content-Length: 60000\r\n\r\n" + strings.Repeat(" ", 300)},
	{name: "slow chunks", text: throttleLine + host + jsonType + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n \r\n", 100)},
	{name: "slow preface", grpc: true, text: preface + settingsFrame + strings.Repeat("\x00", 200)},
	{name: "slow message", grpc: true, text: slowMessage()},
	{name: "silent after the preface", grpc: true, text: preface + settingsFrame},
}
