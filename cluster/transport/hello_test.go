package transport

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/throttledhq/throttled/topology"
)

var longest = strings.Repeat("n", topology.MaxName)

var longestHello = hello{Purpose(0), longest, longest, longest, dataVersion{"18446744073709551615-0123456789abcdef", 1<<64 - 1, version}}

func TestHelloRoundTrip(t *testing.T) {
	for _, want := range []hello{
		{Raft, "c1", "n1", "n2", dataVersion{"", 0, version}},
		{Control, "c", "n", "", dataVersion{unknownRecovery, 1, version}},
		{Control, "c", "n", "", dataVersion{version: oldVersion}},
		longestHello,
	} {
		sent := append(want.encode(), "behind"...)
		r := bytes.NewReader(sent)
		got, err := readHello(iotest.OneByteReader(r))
		if err != nil || got != want {
			t.Errorf("the frame of %+v is read as %+v, error %v; want the same value", want, got, err)
		}
		if r.Len() != len("behind") {
			t.Errorf("readHello leaves %d bytes; want the 6 bytes after the frame", r.Len())
		}
	}
	if size := len(longestHello.encode()); size != headerSize+maxBody || size > 190 {
		t.Errorf("the longest hello has %d bytes; want %d, and at most 190", size, headerSize+maxBody)
	}
}

func TestAnswerRoundTrip(t *testing.T) {
	for _, want := range []answer{
		{codeOK, "c1", "n1", dataVersion{"1-0123456789abcdef", 7, version}}, {codeBusy, longest, longest, dataVersion{version: version}},
		{code(200), "c", "n", dataVersion{version: oldVersion}},
	} {
		got, err := readAnswer(bytes.NewReader(want.encode()))
		if err != nil || got != want {
			t.Errorf("the frame of %+v is read as %+v, error %v; want the same value", want, got, err)
		}
	}
}

// TestHelloBytes checks the encoded bytes, which must not change: nodes of other versions read them.
func TestHelloBytes(t *testing.T) {
	at := dataVersion{"1-0123456789abcdef", 12, version}
	old := dataVersion{version: oldVersion}
	for _, tt := range []struct{ got, want string }{
		{string(hello{Client, "c1", "n1", "n22", old}.encode()), "THRH\x01\x0bF\x02c1\x02n1\x03n22"},
		{string(hello{Client, "c1", "n1", "n22", at}.encode()), "THRH\x02\x21F\x02c1\x02n1\x03n22\x121-0123456789abcdef\x0212"},
		{string(answer{codeOtherNode, "c1", "n1", old}.encode()), "THRA\x01\x07\x03\x02c1\x02n1"},
		{string(answer{codeOtherNode, "c1", "n1", at}.encode()), "THRA\x02\x1d\x03\x02c1\x02n1\x121-0123456789abcdef\x0212"},
	} {
		if tt.got != tt.want {
			t.Errorf("the encoded frame is %q; want %q", tt.got, tt.want)
		}
	}
	for c, want := range []error{
		nil, ErrCertificate, ErrOtherCluster, ErrOtherNode, ErrNotAllowed, ErrNotServed, ErrBusy, ErrVersion, ErrGreeting,
		ErrOtherRecovery, ErrOutdated,
	} {
		if got := reasons[code(c)]; got != want {
			t.Errorf("code %d stands for the error %v; want %v", c, got, want)
		}
	}
}

func TestReadHelloRefuses(t *testing.T) {
	whole := string(hello{Raft, "c1", "n1", "n2", dataVersion{version: version}}.encode())
	for _, test := range []struct {
		name, sent string
		want       error
	}{
		{"nothing", "", io.EOF},
		{"half a header", whole[:3], io.ErrUnexpectedEOF},
		{"half a body", whole[:len(whole)-1], io.ErrUnexpectedEOF},
		{"header only", whole[:headerSize], io.EOF},
		{"an answer", string(answer{codeOK, "c1", "n1", dataVersion{version: version}}.encode()), ErrGreeting},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", ErrGreeting},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01", ErrGreeting},
		{"empty body", "THRH\x01\x00", ErrGreeting},
		{"long body", "THRH\x01\xff" + strings.Repeat("x", 255), ErrGreeting},
		{"other version", "THRH\x03\x01R", ErrVersion},
		{"the previous version with a boot and a recovery", "THRH\x01\x0bR\x02c1\x02n1\x00\x00\x010", ErrGreeting},
		{"no boot", "THRH\x02\x09R\x02c1\x02n1\x00\x00", ErrGreeting},
		{"an invalid boot", "THRH\x02\x0bR\x02c1\x02n1\x00\x00\x01x", ErrGreeting},
		{"a boot with zeros", "THRH\x02\x0cR\x02c1\x02n1\x00\x00\x0201", ErrGreeting},
		{"an invalid recovery", "THRH\x02\x0cR\x02c1\x02n1\x00\x011\x010", ErrGreeting},
		{"version 0", "THRH\x00\x01R", ErrVersion},
		{"purpose only", "THRH\x01\x01R", ErrGreeting},
		{"text too long", "THRH\x01\x04R\x09c1", ErrGreeting},
		{"text missing", "THRH\x01\x07R\x02c1\x02n1", ErrGreeting},
		{"too much", "THRH\x01\x09R\x02c1\x02n1\x00x", ErrGreeting},
		{"no cluster", "THRH\x01\x06R\x00\x02n1\x00", ErrGreeting},
		{"no node", "THRH\x01\x06R\x02c1\x00\x00", ErrGreeting},
		{"line break in node", "THRH\x01\x09R\x02c1\x03n\n1\x00", ErrGreeting},
		{"dot in intended node", "THRH\x01\x0bR\x02c1\x02n1\x03n.2", ErrGreeting},
	} {
		if h, err := readHello(strings.NewReader(test.sent)); !errors.Is(err, test.want) {
			t.Errorf("%s: readHello returns %+v, %v; want %v", test.name, h, err, test.want)
		}
	}
}

func TestReadAnswerRefuses(t *testing.T) {
	for _, test := range []struct {
		name, sent string
		want       error
	}{
		{"nothing", "", io.EOF},
		{"a hello", string(hello{Raft, "c1", "n1", "n2", dataVersion{version: version}}.encode()), ErrGreeting},
		{"no names", "THRA\x01\x01\x00", ErrGreeting},
		{"too much", "THRA\x01\x08\x00\x02c1\x02n1x", ErrGreeting},
		{"empty node", "THRA\x01\x05\x00\x02c1\x00", ErrGreeting},
		{"codeOK of an unknown version", "THRA\x03\x07\x00\x02c1\x02n1", ErrVersion},
	} {
		if a, err := readAnswer(strings.NewReader(test.sent)); !errors.Is(err, test.want) {
			t.Errorf("%s: readAnswer returns %+v, %v; want %v", test.name, a, err, test.want)
		}
	}
}

// TestAnswerOfLaterVersion checks that a node can read the reason for a refusal by a later
// version.
func TestAnswerOfLaterVersion(t *testing.T) {
	a, err := readAnswer(strings.NewReader("THRA\x03\x05\x07what"))
	if want := (answer{code: codeVersion}); err != nil || a != want {
		t.Errorf("readAnswer returns %+v, %v; want %+v", a, err, want)
	}
}

func TestPurposeString(t *testing.T) {
	for p, want := range map[Purpose]string{Raft: "raft", Client: "client", Control: "control", 'x': "unknown (0x78)"} {
		if got := p.String(); got != want {
			t.Errorf("String returns %q; want %q", got, want)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(hello{Raft, "c1", "n1", "n2", dataVersion{version: oldVersion}}.encode())
	f.Add(hello{Control, longest, longest, "", dataVersion{unknownRecovery, 3, version}}.encode())
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		h, err := readHello(r)
		read := len(sent) - r.Len()
		if read > headerSize+maxBody {
			t.Fatalf("readHello reads %d bytes, more than the longest frame", read)
		}
		if err != nil {
			if h != (hello{}) {
				t.Fatalf("readHello returns %+v with the error %v; want a zero value", h, err)
			}
			return
		}
		if again := h.encode(); !bytes.Equal(again, sent[:read]) {
			t.Fatalf("the frame %q is read, and encoded again as %q; want the same bytes", sent[:read], again)
		}
		if err := errors.Join(topology.CheckName(h.cluster), topology.CheckName(h.node)); err != nil {
			t.Fatalf("readHello accepts %+v; want an error, because CheckName returns %v", h, err)
		}
	})
}

func FuzzReadAnswer(f *testing.F) {
	f.Add(answer{codeOK, "c1", "n1", dataVersion{"2-0123456789abcdef", 3, version}}.encode())
	f.Add(answer{codeOK, "c1", "n1", dataVersion{version: oldVersion}}.encode())
	f.Add([]byte("THRA\x03\x05\x07what"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		a, err := readAnswer(r)
		read := len(sent) - r.Len()
		if read > headerSize+maxBody {
			t.Fatalf("readAnswer reads %d bytes, more than the longest frame", read)
		}
		if err != nil {
			if a != (answer{}) {
				t.Fatalf("readAnswer returns %+v with the error %v; want a zero value", a, err)
			}
			return
		}
		if v := sent[headerSize-2]; v == version || v == oldVersion {
			if again := a.encode(); !bytes.Equal(again, sent[:read]) {
				t.Fatalf("the frame %q is read, and encoded again as %q; want the same bytes", sent[:read], again)
			}
		} else if a.code == codeOK {
			t.Fatalf("readAnswer accepts %q, a codeOK of an unknown version; want an error", sent)
		}
	})
}
