package wal

import "syscall"

func syncData(f *diskFile) error { return syscall.Fdatasync(f.fd) }
