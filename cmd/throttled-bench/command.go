package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/resp"
)

const (
	// exhaustedLimit admits one request per year. The second and all later requests to a
	// key are denied during the benchmark.
	exhaustedLimit = "0 1 31536000"
	// ampleLimit admits a burst of 1,000,000,000 requests to each key and restores one per
	// second. After a request, the key needs at least a second to restore its full limit,
	// so the target must store it.
	ampleLimit = "1000000000 1 1"
)

// kind determines how a piece of a request is encoded.
type kind uint8

const (
	literal kind = iota
	keyPart
	numberPart // {n}
	randomPart // {rand}
	headPart   // header, with the length, of an argument that contains {n} or {rand}
)

// placeholders maps the placeholders in a template (the text of -command) to the kinds of pieces that
// replace them.
var placeholders = map[string]kind{"{key}": keyPart, "{n}": numberPart, "{rand}": randomPart}

// piece is a part of an encoded request.
type piece struct {
	kind kind
	text []byte // of a literal

	// Of a headPart: the length in bytes of the argument without its numbers, and the
	// number of occurrences of {n} and {rand}.
	fixed, numbers, randoms int
}

// command is a parsed template, which encodes requests. It is safe for concurrent use.
type command struct {
	text    string // the template
	layout  layout
	pieces  []piece
	random  bool // the template contains {rand}
	limiter bool // a CL. command: replies show whether the request was denied
}

// throttle returns the command CL.THROTTLE with a limit.
func throttle(limit string, l layout) *command {
	c, err := parseTemplate("CL.THROTTLE {key} "+limit, l)
	if err != nil {
		panic("a limit of integers is a bad template: " + err.Error())
	}
	return c
}

// parseTemplate parses a command with placeholders, quoted as for redis-cli.
func parseTemplate(text string, l layout) (*command, error) {
	words, err := resp.SplitLine(nil, []byte(text))
	if err != nil {
		return nil, errors.New("unbalanced quotes")
	}
	if len(words) == 0 || len(words[0]) == 0 {
		return nil, errors.New("contains no command")
	}
	c := &command{text: text, layout: l, limiter: len(words[0]) > 3 && strings.EqualFold(string(words[0][:3]), "CL.")}
	c.addText("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, word := range words {
		c.addArgument(string(word))
	}
	return c, nil
}

// addText adds a literal. It extends a preceding literal to keep the number of pieces small.
func (c *command) addText(s string) {
	if last := len(c.pieces) - 1; last >= 0 && c.pieces[last].kind == literal {
		c.pieces[last].text = append(c.pieces[last].text, s...)
		return
	}
	c.pieces = append(c.pieces, piece{kind: literal, text: []byte(s)})
}

func (c *command) addArgument(word string) {
	head := piece{kind: headPart}
	parts := splitPlaceholders(word)
	for _, part := range parts {
		switch placeholders[part] {
		case keyPart:
			head.fixed += c.layout.size
		case numberPart:
			head.numbers++
		case randomPart:
			head.randoms++
			c.random = true
		default:
			head.fixed += len(part)
		}
	}
	if head.numbers+head.randoms > 0 {
		c.pieces = append(c.pieces, head)
	} else {
		c.addText("$" + strconv.Itoa(head.fixed) + "\r\n")
	}
	for _, part := range parts {
		if kind, found := placeholders[part]; found {
			c.pieces = append(c.pieces, piece{kind: kind})
		} else {
			c.addText(part)
		}
	}
	c.addText("\r\n")
}

// splitPlaceholders splits a word into placeholders and the text between them. Braces
// around other words are text.
func splitPlaceholders(word string) (parts []string) {
	start := 0
	for i := 0; i < len(word); {
		end := strings.IndexByte(word[i:], '}') + i + 1
		if _, found := placeholders[word[i:max(end, i)]]; !found {
			i++
			continue
		}
		if start < i {
			parts = append(parts, word[start:i])
		}
		parts = append(parts, word[i:end])
		i, start = end, end
	}
	if start < len(word) {
		parts = append(parts, word[start:])
	}
	return parts
}

// append appends one encoded request to dst.
func (c *command) append(dst []byte, index, number, random int64) []byte {
	for i := range c.pieces {
		switch p := &c.pieces[i]; p.kind {
		case literal:
			dst = append(dst, p.text...)
		case keyPart:
			dst = c.layout.append(dst, index)
		case numberPart:
			dst = strconv.AppendInt(dst, number, 10)
		case randomPart:
			dst = strconv.AppendInt(dst, random, 10)
		case headPart:
			size := p.fixed + p.numbers*digits(number) + p.randoms*digits(random)
			dst = append(strconv.AppendInt(append(dst, '$'), int64(size), 10), "\r\n"...)
		}
	}
	return dst
}

// digits returns the number of decimal digits of n, which must not be negative.
func digits(n int64) int {
	count := 1
	for n >= 10 {
		n /= 10
		count++
	}
	return count
}

// workload describes the requests of all connections.
type workload struct {
	layout    layout
	dist      dist
	seed      uint64
	regular   *command // for all requests that do not go to exhausted keys
	exhausted *command // nil without -denied
	denied    float64  // share of requests to exhausted keys
	last      *command // nil without -last
}

// source is the stream of requests of one connection.
type source struct {
	workload
	choose chooser
	rng    *rand.Rand

	// exhaustedThreshold is the largest random number that selects an exhausted key. If it is
	// 0, no request is sent to an exhausted key.
	exhaustedThreshold uint64

	number int64 // value of {n} in the next request
	step   int64 // increment of number: the number of connections
}

// source returns the stream of connection conn, from 0 to conns-1, in a round. Equal
// arguments return equal streams.
func (w workload) source(round, conn, conns int) *source {
	rng := rand.New(rand.NewPCG(w.seed, uint64(round)<<32|uint64(conn))) // #nosec G404 -- keys of a load, which a seed repeats
	s := &source{workload: w, rng: rng, number: int64(conn), step: int64(conns)}
	s.choose = w.dist.chooser(w.layout.keys, conn, conns, rng)
	switch {
	case w.denied >= 1:
		s.exhaustedThreshold = math.MaxUint64
	case w.exhausted != nil:
		s.exhaustedThreshold = uint64(w.denied * (1 << 63) * 2)
	}
	return s
}

// append appends the next n encoded requests to dst.
func (s *source) append(dst []byte, n int) []byte {
	for range n {
		index, random, c := s.choose.next(), int64(0), s.regular
		if s.exhaustedThreshold > 0 && s.rng.Uint64() <= s.exhaustedThreshold {
			c, index = s.exhausted, s.layout.keys+index%s.layout.exhausted()
		}
		if c.random {
			random = s.rng.Int64N(s.layout.keys)
		}
		dst = c.append(dst, index, s.number, random)
		s.number += s.step
	}
	return dst
}
