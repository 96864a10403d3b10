//go:build java

package clienttests

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redissonErrors is the largest permitted number of error replies. If a command is reported as
// unknown, Redisson retries it forever, about ten thousand times per second.
const redissonErrors = 40

// TestRedisson_Java builds testdata/redisson with Maven and runs it against a server. Each call
// must fail with the error of the server after a few attempts. "make client-tests-java" installs
// the requirements.
func TestRedisson_Java(t *testing.T) {
	maven := tool(t, "mvn", "maven default-jdk-headless")
	srv := start(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first run downloads
	defer cancel()
	cmd := exec.CommandContext(ctx, maven, "-B", "-ntp", "-q", "-Dstyle.color=never", "-f", "testdata/redisson/pom.xml",
		"-Doutput="+t.TempDir(), "compile", "exec:java", "-Dexec.args="+srv.addr)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "passed") {
		t.Errorf("Redisson: error %v; want none, and \"passed\" in the output:\n%s", err, out)
	}
	count, err := strconv.Atoi(strings.TrimPrefix(srv.info(t, "errorstat_ERR"), "count="))
	if err != nil || count > redissonErrors {
		t.Errorf("the server has returned %d errors, %v; want at most %d", count, err, redissonErrors)
	}
}
