//go:build !darwin

package server

import "syscall"

// tcpKeepIdle is the TCP socket option for the idle time before the first keep-alive probe.
const tcpKeepIdle = syscall.TCP_KEEPIDLE
