package certs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseSerials(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"# nothing\n\n  \t\n":           "",
		"a1\nB2 # n4\n  00c3\t#\n":      "a1 b2 c3",
		"A1:b2:C3\r\nff":                "a1b2c3 ff",
		"serial=0A1B\n serial=c3 # n4":  "a1b c3",
		strings.Repeat("f", 40) + "\na": strings.Repeat("f", 40) + " a",
	} {
		got, err := ParseSerials(text)
		if err != nil || len(got) != len(strings.Fields(want)) {
			t.Errorf("ParseSerials(%q) returns %v, %v; want %s", text, got, err, want)
		}
		for _, serial := range strings.Fields(want) {
			if _, ok := got[serial]; !ok {
				t.Errorf("the result of ParseSerials(%q) lacks %s", text, serial)
			}
		}
	}
	for _, text := range []string{"n4", "a1\n0x2", "a1 b2", "-1", "0", "a1\x00", "serial=", "serial=serial=a1", "Serial=a1"} {
		if got, err := ParseSerials(text); !errors.Is(err, ErrSerials) {
			t.Errorf("ParseSerials(%q) returns %v, %v; want ErrSerials", text, got, err)
		}
	}
	if _, err := ParseSerials("a1\nhunter2\n"); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("the error is %v, want one with the number of the line and without its text", err)
	}
}

// TestSerialOf checks that the serial number of a certificate is found in a list.
func TestSerialOf(t *testing.T) {
	p, err := newCA(t).Issue("n1", "c1", 1, noon)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := p.Serial()
	if err != nil {
		t.Fatal(err)
	}
	list, err := ParseSerials("serial=" + strings.ToUpper(serial))
	if _, listed := list[SerialOf(leaf(t, p))]; err != nil || !listed {
		t.Errorf("the list %v lacks %s; error: %v", list, serial, err)
	}
}

func TestEarliestExpiry(t *testing.T) {
	ca := newCA(t)
	p, err := ca.Issue("n1", "c1", 3, noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, text string
		want       time.Time
	}{
		{"junk", "junk", time.Time{}},
		{"one", string(ca.Pair().Cert), ca.Expires()},
		{"two", string(slices.Concat(ca.Pair().Cert, p.Cert)), noon.Add(72 * time.Hour)},
	} {
		if got := EarliestExpiry([]byte(test.text)); !got.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
