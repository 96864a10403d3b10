package transport

import (
	"errors"
	"fmt"
	"io"

	"strconv"

	"github.com/throttledhq/throttled/topology"
)

// Purpose is the purpose of a stream.
type Purpose byte

// The purposes of streams.
const (
	Raft    Purpose = 'R' // messages of Raft; see Link.SetAllowed
	Client  Purpose = 'F' // client commands forwarded by a follower
	Control Purpose = 'C' // join and leave requests, and queries for the state of a node
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
	return fmt.Sprintf("unknown (%#x)", byte(p))
}

// A greeting consists of two frames: a hello from the dialing node, and an answer from its peer. A
// frame has four parts:
//
//	magic    4 bytes: "THRH" in a hello, "THRA" in an answer
//	version  1 byte
//	length   1 byte: the length of the body
//	body     of a hello: purpose; five texts: cluster, sending node, intended node or "", recovery, boot
//	         of an answer: code; four texts: cluster, answering node, recovery, boot
//
// A text is encoded as a length byte followed by its bytes. The format of the first three parts is
// the same in all versions. In an answer, the format up to the code is the same in all versions, so
// that a refusal and its reason can be sent to a node of any version. Version 1 has neither recovery
// nor boot. It is accepted, and used for dialing, only if the cluster was never recovered.
const (
	helloMagic  = "THRH"
	answerMagic = "THRA"
	version     = 2
	oldVersion  = 1
	headerSize  = len(helloMagic) + 2
	maxBoot     = 20 // digits
	maxBody     = 1 + 3*(1+topology.MaxName) + 1 + topology.MaxRecovery + 1 + maxBoot
)

// hello is the first frame on a stream, sent by the dialing node.
type hello struct {
	purpose       Purpose
	cluster, node string // of the sender
	target        string // the intended node; "": any node of the cluster
	dataVersion
}

// answer is the frame sent in response to a hello.
type answer struct {
	code          code
	cluster, node string // of the sender
	dataVersion
}

// dataVersion is the part of a frame that identifies the data of the sending node.
type dataVersion struct {
	recovery topology.Recovery // unknownRecovery: not set on the node yet
	boot     uint64            // number of starts of the node with this data; 0: unknown
	version  byte              // version of the frame
}

// unknownRecovery is sent on Control streams by a node whose recovery is not set yet. See Link.SetRecovery.
const unknownRecovery topology.Recovery = "?"

// texts returns the texts that encode the data version at the end of a frame.
func (s dataVersion) texts() []string {
	if s.version == oldVersion {
		return nil
	}
	return []string{string(s.recovery), strconv.FormatUint(s.boot, 10)}
}

// parseDataVersion parses the texts that the method texts has returned, in a frame of the given version.
func parseDataVersion(version byte, texts []string) (s dataVersion, err error) {
	s.version = version
	if version == oldVersion {
		return s, nil
	}
	s.recovery = topology.Recovery(texts[0])
	s.boot, err = strconv.ParseUint(texts[1], 10, 64)
	if err != nil || strconv.FormatUint(s.boot, 10) != texts[1] || !s.recovery.Valid() && s.recovery != unknownRecovery {
		return dataVersion{}, fmt.Errorf("%w: recovery %q, boot %q", ErrGreeting, texts[0], texts[1])
	}
	return s, nil
}

// code is the result of a hello.
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

// reasons maps codes to errors. The meaning of a code never changes.
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

// codeOf returns the code of an error, and reports whether it has one.
func codeOf(err error) (code, bool) {
	for c, reason := range reasons {
		if errors.Is(err, reason) {
			return c, true
		}
	}
	return codeOK, false
}

func (h hello) encode() []byte {
	return frame(helloMagic, h.version, byte(h.purpose), append([]string{h.cluster, h.node, h.target}, h.texts()...)...)
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

// readHello reads a hello from a stream. It reads no byte after the hello. Errors wrap
// ErrGreeting, ErrVersion or the error of the stream.
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
	if topology.CheckName(h.cluster) != nil || topology.CheckName(h.node) != nil || h.target != "" && topology.CheckName(h.target) != nil {
		return hello{}, fmt.Errorf("%w: it contains an invalid name", ErrGreeting)
	}
	return h, nil
}

// readAnswer reads an answer from a stream. It reads no byte after the answer. Errors wrap
// ErrGreeting, ErrVersion or the error of the stream. If a refusal has a different
// version, only its code is parsed.
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
	a.cluster, a.node, a.dataVersion = texts[0], texts[1], s
	if topology.CheckName(a.cluster) != nil || topology.CheckName(a.node) != nil {
		return answer{}, fmt.Errorf("%w: it contains an invalid name", ErrGreeting)
	}
	return a, nil
}

// cutBody parses the n names and the data version that follow the first byte of a body.
func cutBody(v byte, body []byte, n int) (names []string, s dataVersion, err error) {
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
	s, err = parseDataVersion(v, texts[n:])
	return texts[:n], s, err
}

// readFrame reads a frame into buf, which must have room for the longest frame. It returns the
// version and the body, which has at least one byte.
func readFrame(r io.Reader, magic string, buf []byte) (v byte, body []byte, err error) {
	header := buf[:headerSize]
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, fmt.Errorf("read the greeting: %w", err)
	}
	if string(header[:len(magic)]) != magic {
		return 0, nil, fmt.Errorf("%w: it starts with %q", ErrGreeting, header[:len(magic)])
	}
	v, size := header[headerSize-2], int(header[headerSize-1])
	if size < 1 || size > maxBody {
		return 0, nil, fmt.Errorf("%w: invalid length %d", ErrGreeting, size)
	}
	body = buf[headerSize : headerSize+size]
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("read the greeting: %w", err)
	}
	return v, body, nil
}

// cutTexts splits b, which must consist of exactly n texts.
func cutTexts(b []byte, n int) ([]string, error) {
	texts := make([]string, n)
	for i := range texts {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return nil, fmt.Errorf("%w: truncated", ErrGreeting)
		}
		end := 1 + int(b[0])
		texts[i], b = string(b[1:end]), b[end:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d surplus bytes", ErrGreeting, len(b))
	}
	return texts, nil
}
