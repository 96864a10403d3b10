//go:build !linux

package entrylog

func syncData(f *diskFile) error { return f.File.Sync() }
