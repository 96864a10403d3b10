package main

import "testing"

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		said string
		bad  bool
		want caught
		err  bool
	}{
		{"PASS\n", false, caught{}, false},
		{"--- FAIL: TestB (0.1s)\n    --- FAIL: TestB/sub (0s)\n    x.go:1: --- FAIL: no\n--- FAIL: TestA (0s)\nFAIL\n", true, caught{others: "TestA TestB"}, false},
		{"--- FAIL: TestB (0.1s)\n    checks_test.go:7: 9 admitted\n--- FAIL: TestA (0s)\n    x.go:1: slow\n", true, caught{"TestB", "TestA"}, false},
		{"--- FAIL: TestVoidEntry (0.1s)\n    x.go:7: 9 left\n", true, caught{unsafe: "TestVoidEntry"}, false},
		{"--- FAIL: TestB (0.1s)\n\npanic: test timed out after 1m\n", true, caught{others: "TestB panic"}, false},
		{"panic: test timed out after 1m\n", true, caught{others: "panic"}, false},
		{"exec format error\n", true, caught{}, true},
	} {
		if got, err := failures(tt.said, tt.bad); got != tt.want || (err != nil) != tt.err {
			t.Errorf("%q: %+v, %v", tt.said, got, err)
		}
	}
}
