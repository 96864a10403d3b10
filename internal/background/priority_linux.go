package background

import "syscall"

// lowerPriority lowers the priority of the calling thread. On Linux, a priority belongs to a thread. Without permission,
// the priority stays as it is.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceness) }
