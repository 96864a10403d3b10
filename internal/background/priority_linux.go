package background

import "syscall"

// linuxZero is the value of the system call getpriority for niceness 0. The value is lower for a higher niceness.
const linuxZero = 20

// lowest is the largest niceness of Linux.
const lowest = 19

// lowerPriority raises the niceness of the calling thread. On Linux, a niceness belongs to a thread. If the system call
// fails, the priority stays as it is.
func lowerPriority() {
	now, err := threadNiceness()
	if err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), min(now+niceness, lowest))
	}
}

// threadNiceness returns the niceness of the calling thread.
func threadNiceness() (int, error) {
	n, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
	return linuxZero - n, err
}
