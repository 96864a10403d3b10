//go:build !linux

package loadgen

import (
	"errors"
	"time"
)

var errSystem = errors.New("the load generator works on Linux only")

type poller struct{}

func newPoller() (*poller, error)               { return nil, errSystem }
func (*poller) add(int, int) error              { return errSystem }
func (*poller) wait(time.Duration) (int, error) { return 0, errSystem }
func (*poller) index(int) int                   { return 0 }
func (*poller) close()                          {}

func dial(string) (int, error)       { return 0, errSystem }
func read(int, []byte) (int, error)  { return 0, errSystem }
func write(int, []byte) (int, error) { return 0, errSystem }
func closeSocket(int)                {}

func ownThread() func() time.Duration { return func() time.Duration { return 0 } }
