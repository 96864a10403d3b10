package peerlink

import (
	"errors"
	"fmt"
	"io"

	"strconv"

	"github.com/throttledhq/throttled/peerlink/certs"
	"github.com/throttledhq/throttled/topology"
)

// Purpose is what a stream is for.
type Purpose byte

// The purposes of streams.
const (
	Raft    Purpose = 'R' // messages of Raft; see Link.SetAllowed
	Client  Purpose = 'F' // commands of clients that a follower forwards
	Control Purpose = 'C' // joining, leaving and asking for the state of a node
)

// String returns the name of the purpose.
func (p Purpose) String() string {
	switch p {
	case Raft:
		return "raft"
	case Client:
		return "client"
	case Control:
		return "control"
	}
	return fmt.Sprintf("purpose %#x", byte(p))
}

// A greeting is a frame from who dialled and one in answer:
//
//	magic    4 bytes, "THRH" and "THRA"
//	version  1 byte
//	length   1 byte, of what follows
//	hello    purpose; five texts: cluster, node that speaks, node that is meant or "", recovery, boot
//	answer   code; four texts: cluster, node that answers, recovery, boot
//
// A text is a byte that says its length, and that many bytes. Frames of all versions
// begin in the same way up to the length, and answers up to the code, so that a node can
// tell one of another version why it is refused. Version 1 has neither recovery nor boot. It is answered
// and tried as well, as long as the cluster was never recovered.
const (
	helloMagic  = "THRH"
	answerMagic = "THRA"
	version     = 2
	oldVersion  = 1
	headerSize  = len(helloMagic) + 2
	maxBoot     = 20 // digits
	maxBody     = 1 + 3*(1+certs.MaxName) + 1 + topology.MaxRecovery + 1 + maxBoot
)

// hello is what a node says that opens a stream.
type hello struct {
	purpose       Purpose
	cluster, node string // who speaks
	meant         string // whom it wants; "": any node of the cluster
	standing
}

// answer is what it is told.
type answer struct {
	code          code
	cluster, node string // who answers
	standing
}

// standing is what a node says of its data.
type standing struct {
	recovery topology.Recovery // newcomer: it has no data yet
	boot     uint64            // counts the starts with its data; 0: unknown
	version  byte              // of the frame
}

// newcomer stands for the recovery of a node that has yet to learn it.
const newcomer topology.Recovery = "?"

// texts are those at the end of a frame.
func (s standing) texts() []string {
	if s.version == oldVersion {
		return nil
	}
	return []string{string(s.recovery), strconv.FormatUint(s.boot, 10)}
}

// parseStanding reads what texts has made.
func parseStanding(version byte, texts []string) (s standing, err error) {
	s.version = version
	if version == oldVersion {
		return s, nil
	}
	s.recovery = topology.Recovery(texts[0])
	s.boot, err = strconv.ParseUint(texts[1], 10, 64)
	if err != nil || strconv.FormatUint(s.boot, 10) != texts[1] || !s.recovery.Valid() && s.recovery != newcomer {
		return standing{}, fmt.Errorf("%w: recovery %q, boot %q", ErrGreeting, texts[0], texts[1])
	}
	return s, nil
}

// code is how a hello is received.
type code byte

const (
	codeOK code = iota
	codeCertificate
	codeOtherCluster
	codeOtherNode
	codeNotAllowed
	codeNotServed
	codeBusy
	codeVersion
	codeGreeting
	codeOtherRecovery
	codeOutdated
)

// reasons are the errors behind the codes. Codes are never given another meaning.
var reasons = map[code]error{
	codeCertificate:   ErrCertificate,
	codeOtherCluster:  ErrOtherCluster,
	codeOtherNode:     ErrOtherNode,
	codeNotAllowed:    ErrNotAllowed,
	codeNotServed:     ErrNotServed,
	codeBusy:          ErrBusy,
	codeVersion:       ErrVersion,
	codeGreeting:      ErrGreeting,
	codeOtherRecovery: ErrOtherRecovery,
	codeOutdated:      ErrOutdated,
}

// codeOf returns the code that tells of an error, and whether there is one.
func codeOf(err error) (code, bool) {
	for c, reason := range reasons {
		if errors.Is(err, reason) {
			return c, true
		}
	}
	return codeOK, false
}

func (h hello) encode() []byte {
	return frame(helloMagic, h.version, byte(h.purpose), append([]string{h.cluster, h.node, h.meant}, h.texts()...)...)
}

func (a answer) encode() []byte {
	return frame(answerMagic, a.version, byte(a.code), append([]string{a.cluster, a.node}, a.texts()...)...)
}

func frame(magic string, version, first byte, texts ...string) []byte {
	b := append(make([]byte, 0, headerSize+maxBody), magic...)
	b = append(b, version, 0, first)
	for _, s := range texts {
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	b[headerSize-1] = byte(len(b) - headerSize)
	return b
}

// readHello reads one from a stream and nothing behind it. Errors wrap ErrGreeting,
// ErrVersion or that of the stream.
func readHello(r io.Reader) (hello, error) {
	var buf [headerSize + maxBody]byte
	v, body, err := readFrame(r, helloMagic, buf[:])
	if err != nil {
		return hello{}, err
	}
	texts, s, err := cutBody(v, body, 3)
	if err != nil {
		return hello{}, err
	}
	h := hello{Purpose(body[0]), texts[0], texts[1], texts[2], s}
	if certs.CheckName(h.cluster) != nil || certs.CheckName(h.node) != nil || h.meant != "" && certs.CheckName(h.meant) != nil {
		return hello{}, fmt.Errorf("%w: a name in it is none", ErrGreeting)
	}
	return h, nil
}

// readAnswer reads one from a stream and nothing behind it. Errors wrap ErrGreeting or
// that of the stream. Of an answer in another version only the code is read.
func readAnswer(r io.Reader) (answer, error) {
	var buf [headerSize + maxBody]byte
	v, body, err := readFrame(r, answerMagic, buf[:])
	if err != nil {
		return answer{}, err
	}
	a := answer{code: code(body[0])}
	texts, s, err := cutBody(v, body, 2)
	if errors.Is(err, ErrVersion) && a.code != codeOK {
		return a, nil
	}
	if err != nil {
		return answer{}, err
	}
	a.cluster, a.node, a.standing = texts[0], texts[1], s
	if certs.CheckName(a.cluster) != nil || certs.CheckName(a.node) != nil {
		return answer{}, fmt.Errorf("%w: a name in it is none", ErrGreeting)
	}
	return a, nil
}

// cutBody returns n names and the standing that a frame holds behind its first byte.
func cutBody(v byte, body []byte, n int) (names []string, s standing, err error) {
	more := 2
	switch v {
	case version:
	case oldVersion:
		more = 0
	default:
		return nil, s, fmt.Errorf("%w: %d, not %d", ErrVersion, v, version)
	}
	texts, err := cutTexts(body[1:], n+more)
	if err != nil {
		return nil, s, err
	}
	s, err = parseStanding(v, texts[n:])
	return texts[:n], s, err
}

// readFrame reads a frame into buf, which has room for the longest, and returns its
// version and its body, which has at least one byte.
func readFrame(r io.Reader, magic string, buf []byte) (v byte, body []byte, err error) {
	header := buf[:headerSize]
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, fmt.Errorf("read the greeting: %w", err)
	}
	if string(header[:len(magic)]) != magic {
		return 0, nil, fmt.Errorf("%w: it begins with %q", ErrGreeting, header[:len(magic)])
	}
	v, size := header[headerSize-2], int(header[headerSize-1])
	if size < 1 || size > maxBody {
		return 0, nil, fmt.Errorf("%w: %d bytes long", ErrGreeting, size)
	}
	body = buf[headerSize : headerSize+size]
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("read the greeting: %w", err)
	}
	return v, body, nil
}

// cutTexts takes b apart, which must be n texts and nothing else.
func cutTexts(b []byte, n int) ([]string, error) {
	texts := make([]string, n)
	for i := range texts {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return nil, fmt.Errorf("%w: it ends too soon", ErrGreeting)
		}
		end := 1 + int(b[0])
		texts[i], b = string(b[1:end]), b[end:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", ErrGreeting, len(b))
	}
	return texts, nil
}
