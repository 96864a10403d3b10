package clienttests

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// redisPyTests is the number of tests in testdata/redis_py.py.
const redisPyTests = 22

// TestRedisPy uses Debian's Python, since Debian's redis-py is installed for it only.
func TestRedisPy(t *testing.T) {
	python := tool(t, "/usr/bin/python3", "python3 python3-redis")
	if got := runTool(t, "", python, "-c", "import redis"); got.code != 0 {
		t.Fatalf("import of redis in Python: %s; run apt-get install python3-redis", got.err)
	}
	open, secured := start(t, ""), start(t, "secret")
	secured.allow(`level=WARN msg="wrong password"`)
	got := runTool(t, "", python, "-W", "error", "testdata/redis_py.py", "127.0.0.1", open.port(t), secured.port(t), "secret")
	ran := regexp.MustCompile(`(?m)^Ran (\d+) tests in `).FindStringSubmatch(got.err)
	if got.code != 0 || got.out != "" || ran == nil || ran[1] != strconv.Itoa(redisPyTests) || !strings.HasSuffix(got.err, "\nOK\n") {
		t.Errorf("exit code %d; want exit code 0, %d tests, and no other output:\n%s%s", got.code, redisPyTests, got.out, got.err)
	}
}
