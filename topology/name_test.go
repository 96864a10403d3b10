package topology

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "n1", "N-1", "0", "a--b", strings.Repeat("x", MaxName)} {
		if err := CheckName(good); err != nil {
			t.Errorf("CheckName(%q): got %v, want no error", good, err)
		}
	}
	for _, bad := range []string{
		"", "-", "-a", "a-", "a.b", "a_b", "a b", "*", "a/b", "..", "a\x00", "ä", "a\n", strings.Repeat("x", MaxName+1),
	} {
		if err := CheckName(bad); !errors.Is(err, ErrName) {
			t.Errorf("CheckName(%q): got %v, want %v", bad, err, ErrName)
		}
	}
	if err := CheckName(strings.Repeat("x", 1<<20)); len(err.Error()) > 200 {
		t.Errorf("the error for a name of 1 MiB has %d bytes, want at most 200", len(err.Error()))
	}
}
