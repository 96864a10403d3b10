package rediscli

import (
	"bytes"
	"testing"
)

// TestSideBySide holds the conversations that are true of Redis too with both servers.
// Replies have to be the same byte for byte, but for those whose script says what Redis
// answers instead.
func TestSideBySide(t *testing.T) {
	redis := startRedis(t)
	all, some := eachSection(t, func(sec *section) bool { return sec.redis }, inTime(func(t testing.TB, sec *section) {
		redis.prepare(t, sec)
		theirs := play(t, sec, redis)
		ours := play(t, sec, startInProcess(t, sec))
		for _, st := range sec.steps {
			same := bytes.Equal(ours[st], theirs[st])
			switch {
			case st.redis != "" && st.isReply() && same:
				t.Errorf("%v: Redis answers the same: %q", st, theirs[st])
			case st.redis == "" && literal(st.text) && !same:
				t.Errorf("%v:\nwe answer %q\nRedis     %q", st, ours[st], theirs[st])
			}
		}
	}))
	t.Logf("%d of %d commands", some, all)
	if some*3 < all {
		t.Error("less than a third of the corpus is compared with Redis")
	}
}
