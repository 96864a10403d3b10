package headers

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/throttledhq/throttled/edge/decision"
)

func TestAppendRefusal(t *testing.T) {
	login := decision.Limit{Decision: refusal(5, 0, 29*time.Second+1, time.Minute), Name: "login", Window: "1m", Period: time.Minute}
	day := decision.Limit{Decision: refusal(9, 0, time.Second, time.Minute), Name: "login", Window: "1d", Period: 24 * time.Hour}
	shadow := decision.Limit{Decision: login.Decision, Name: "secret", Flags: decision.Shadow}
	flagged := func(flags decision.Flags, l decision.Limit) *decision.Result {
		l.Flags = flags
		r := result(0, l)
		r.Flags = flags
		return r
	}
	for name, c := range map[string]struct {
		result *decision.Result
		want   string
	}{
		"exceeded": {result(1, decision.Limit{Decision: state(9, 8, 0), Name: "api"}, login, shadow),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
				`"error":"rate_limited","message":"the limit login is exceeded; retry after 30 seconds","retry_after_seconds":30,"violated-policies":["login"]}`},
		"two amounts": {result(1, login, day),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
				`"error":"rate_limited","message":"the limit login is exceeded; retry after 1 second","retry_after_seconds":1,"violated-policies":["login","login:1d"]}`},
		"no wait helps": {result(0, decision.Limit{Decision: refusal(0, 0, -1, 0)}),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
				`"error":"rate_limited","message":"the limit default never admits this request","violated-policies":["default"]}`},
		"no list of limits": {&decision.Result{Decision: refusal(5, 0, time.Second, time.Second)},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
				`"error":"rate_limited","message":"the limit default is exceeded; retry after 1 second","retry_after_seconds":1,"violated-policies":["default"]}`},
		"banned": {flagged(decision.Banned, login),
			`{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Request not satisfied due to detection of abnormal request pattern","status":429,` +
				`"error":"banned","message":"the limit login has banned the client; retry after 30 seconds","retry_after_seconds":30,"violated-policies":["login"]}`},
		"banned, and no wait helps": {flagged(decision.Banned, decision.Limit{Decision: refusal(5, 0, -1, 0), Name: "login"}),
			`{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Request not satisfied due to detection of abnormal request pattern","status":429,` +
				`"error":"banned","message":"the limit login has banned the client","violated-policies":["login"]}`},
		"no leader": {flagged(decision.FailClosed, decision.Limit{Decision: refusal(0, 0, time.Second, time.Second), Name: "a\"\\\n\xffé"}),
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":429,` +
				`"error":"unavailable","message":"the limit a\"\\\u000a` + "\ufffd" + `é cannot be decided at present; retry after 1 second","retry_after_seconds":1,"violated-policies":["a\"\\%0A%FF%C3%A9"]}`},
	} {
		got := AppendRefusal([]byte{}, 429, c.result)
		if string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestProblem(t *testing.T) {
	for _, c := range []struct {
		problem Problem
		want    map[string]any
	}{
		{Problem{TypeBlank, "Bad Request", 400, "invalid_request", "a \"b\"\t\u2028\\", 0},
			map[string]any{"type": TypeBlank, "title": "Bad Request", "status": 400.0, "error": "invalid_request", "message": "a \"b\"\t\u2028\\"}},
		{Unavailable("no leader"),
			map[string]any{"type": TypeReducedCapacity, "title": titleReducedCapacity, "status": 503.0, "error": "unavailable", "message": "no leader", "retry_after_seconds": 1.0}},
	} {
		var got map[string]any
		if err := json.Unmarshal(c.problem.Append(nil), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("problem %v, error %v; want %v", got, err, c.want)
		}
	}
}
