package rediscli

import (
	"bytes"
	"testing"
)

// TestSideBySide runs the sections that also apply to Redis twice: with this server and
// with a redis-server. The replies of both servers must have the same bytes, unless the
// script specifies a different reply for Redis.
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
				t.Errorf("%v: the script has a different reply for Redis, but both servers return %q", st, theirs[st])
			case st.redis == "" && literal(st.text) && !same:
				t.Errorf("%v: the replies differ:\nours  %q\nRedis %q", st, ours[st], theirs[st])
			}
		}
	}))
	t.Logf("redis-server ran %d of %d commands", some, all)
	if some*3 < all {
		t.Error("Redis runs less than a third of the corpus")
	}
}
