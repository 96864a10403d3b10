//go:build !linux

package server

// limitUnsent does nothing: on other systems, the default size of socket buffers limits the bytes that the kernel stores.
func (s *socket) limitUnsent() {}
