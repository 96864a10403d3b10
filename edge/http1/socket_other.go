//go:build !linux

package http1

const supported = false

func readDescriptor(uintptr, []byte) (int, error) { return 0, errNothing }
func writeDescriptor(uintptr, []byte) int         { return 0 }
