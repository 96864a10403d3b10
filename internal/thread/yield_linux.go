package thread

import "syscall"

// Yield runs the other threads that wait for the processor of the calling thread, if there are any.
func Yield() {
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // never fails
}
