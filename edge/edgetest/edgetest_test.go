package edgetest

import (
	"errors"
	"testing"

	"github.com/throttledhq/throttled/acl"
)

// fixedRunner is a Runner with a fixed reply. It records the commands.
type fixedRunner struct {
	reply    string
	err      error
	commands string
	closed   bool
}

func (r *fixedRunner) As(acl.Login) {}

func (r *fixedRunner) Run(commands, replies []byte) ([]byte, error) {
	r.commands += string(commands)
	return append(replies, r.reply...), r.err
}

func (r *fixedRunner) Close() { r.closed = true }

// failure records whether a test has failed, and ends it like a real one.
type failure struct {
	testing.TB
	failed bool
}

func (f *failure) Helper() {}

func (f *failure) Fatalf(string, ...any) {
	f.failed = true
	panic(f)
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		reply string
		err   error
		fails bool
	}{
		{"+OK\r\n", nil, false},
		{"-ERR syntax error\r\n", nil, true},
		{"", nil, true},
		{"+OK\r\n", errors.New("closed"), true},
	} {
		r, f := &fixedRunner{reply: tt.reply, err: tt.err}, &failure{}
		func() {
			defer func() { _ = recover() }()
			Run(f, r, "ACL", "DELUSER", "")
		}()
		if f.failed != tt.fails || !r.closed || r.commands != "*3\r\n$3\r\nACL\r\n$7\r\nDELUSER\r\n$0\r\n\r\n" {
			t.Errorf("reply %q, error %v: failed %v, closed %v, commands %q; want failed %v", tt.reply, tt.err, f.failed, r.closed, r.commands, tt.fails)
		}
	}
}
