package topology

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "n1", "N-1", "0", "a--b", strings.Repeat("x", MaxName)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "-", "-a", "a-", "a.b", "a_b", "a b", "*", "a/b", "..", "a\x00", "ä", "a\n", strings.Repeat("x", MaxName+1),
	} {
		if err := CheckName(bad); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v, want %v", bad, err, ErrName)
		}
	}
	if err := CheckName(strings.Repeat("x", 1<<20)); len(err.Error()) > 200 {
		t.Errorf("the error has %d bytes: it quotes the whole name", len(err.Error()))
	}
}
