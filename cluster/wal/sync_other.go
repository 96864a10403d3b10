//go:build !linux

package wal

func syncData(f *diskFile) error { return f.File.Sync() }
