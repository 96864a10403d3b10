package server

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"
)

// TestDropSubscriptions drops names from a list that is shared with other goroutines. The shared list must not change.
func TestDropSubscriptions(t *testing.T) {
	t.Parallel()
	list := []string{"a", "b", "c"}
	for names, want := range map[string]string{"a": "b c", "b": "a c", "c": "a b", "d": "a b c", "a c a": "b", "c b a": ""} {
		s := subscriptions{channels: list}
		dropped := s.drop(false, strings.Fields(names))
		if got := strings.Join(s.channels, " "); got != want || len(dropped) != len(list)-len(s.channels) {
			t.Errorf("drop %s: the rest is %q, the dropped names are %v; want the rest %q", names, got, dropped, want)
		}
		_ = append(s.channels, "e")
		if got := strings.Join(list, " "); got != "a b c" {
			t.Fatalf("drop %s, then append: the shared list was changed to %q, want a b c", names, got)
		}
	}
}

// TestDroppedSubscriptionsAreFreed checks that the memory of a dropped name is freed while other names are kept. This
// matters because only the kept names count as client memory.
func TestDroppedSubscriptionsAreFreed(t *testing.T) {
	t.Parallel()
	var s subscriptions
	for _, c := range []string{"a", "b", "c"} {
		s.channels = append(s.channels, strings.Repeat(c, maxName))
	}
	first := weak.Make(unsafe.StringData(s.channels[0]))
	s.drop(false, []string{strings.Repeat("a", maxName)})
	runtime.GC()
	if first.Value() != nil {
		t.Error("a dropped name is kept in memory")
	}
	runtime.KeepAlive(&s)
}

// TestUnsubscribe checks that each name is confirmed with the number of remaining subscriptions.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	p.ask("PSUBSCRIBE", "p*")
	p.send(request("SUBSCRIBE", "a", "b", "c"))
	for range 3 {
		p.read()
	}
	confirmed := func(name, left string) string {
		return "*3\r\n" + bulk("unsubscribe") + bulk(name) + ":" + left + "\r\n"
	}
	p.do(confirmed("a", "3")+confirmed("x", "3")+confirmed("a", "3")+confirmed("b", "2"), "UNSUBSCRIBE", "a", "x", "a", "b")
	p.do(confirmed("c", "1"), "UNSUBSCRIBE")
	p.do("*3\r\n"+bulk("unsubscribe")+"$-1\r\n:1\r\n", "UNSUBSCRIBE")
}
