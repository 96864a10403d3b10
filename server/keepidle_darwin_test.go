package server

import "syscall"

// tcpKeepIdle is the option that holds the idle time before the first probe.
const tcpKeepIdle = syscall.TCP_KEEPALIVE
