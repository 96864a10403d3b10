package main

import "testing"

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		said string
		bad  bool
		want string
		err  bool
	}{
		{"PASS\n", false, "", false},
		{"--- FAIL: TestB (0.1s)\n    --- FAIL: TestB/sub (0s)\n    x.go:1: --- FAIL: no\n--- FAIL: TestA (0s)\nFAIL\n", true, "TestA TestB", false},
		{"--- FAIL: TestB (0.1s)\n\npanic: test timed out after 1m\n", true, "TestB panic", false},
		{"exec format error\n", true, "", true},
	} {
		if got, err := failures(tt.said, tt.bad); got != tt.want || (err != nil) != tt.err {
			t.Errorf("%q: %q, %v", tt.said, got, err)
		}
	}
}
