//go:build !linux

package background

// lowerPriority does nothing: the priority of a single thread cannot be changed portably.
func lowerPriority() { _ = niceness }
