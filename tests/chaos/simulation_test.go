package main

import "testing"

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		output string
		bad    bool
		want   foundBy
		err    bool
	}{
		{"PASS\n", false, foundBy{}, false},
		{"--- FAIL: TestB (0.1s)\n    --- FAIL: TestB/sub (0s)\n    x.go:1: --- FAIL: no\n--- FAIL: TestA (0s)\nFAIL\n", true, foundBy{others: "TestA TestB"}, false},
		{"--- FAIL: TestB (0.1s)\n    checks_test.go:7: 9 admitted\n--- FAIL: TestA (0s)\n    x.go:1: slow\n", true, foundBy{"TestB", "TestA"}, false},
		{"--- FAIL: TestVoidEntry (0.1s)\n    x.go:7: 9 left\n", true, foundBy{safety: "TestVoidEntry"}, false},
		{"--- FAIL: TestB (0.1s)\n\npanic: test timed out after 1m\n", true, foundBy{others: "TestB panic"}, false},
		{"panic: test timed out after 1m\n", true, foundBy{others: "panic"}, false},
		{"exec format error\n", true, foundBy{}, true},
	} {
		if got, err := failures(tt.output, tt.bad); got != tt.want || (err != nil) != tt.err {
			t.Errorf("%q: %+v, %v", tt.output, got, err)
		}
	}
}
