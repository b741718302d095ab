package main

import (
	"strings"
	"testing"
)

func TestFinish(t *testing.T) {
	t.Parallel()
	skipped := []skip{{test: "m/a.TestNode", reason: "node is not installed"}}
	for _, tt := range []struct {
		name  string
		tally tally
		ci    bool
		code  int
		want  string
	}{
		{"all passed", tally{passed: 3}, true, exitOK, "3 passed, 0 failed, 0 skipped\n"},
		{"one failed", tally{passed: 3, failed: 1}, false, exitFailed, "3 passed, 1 failed, 0 skipped\n"},
		{"a skip", tally{passed: 3, skipped: skipped}, false, exitOK,
			"skipped: m/a.TestNode: node is not installed\n3 passed, 0 failed, 1 skipped\n"},
		{"skips of one reason", tally{passed: 3, skipped: []skip{{"m/a.TestOne", "a_test.go:4: no node"}, {"m/a.TestTwo", "b_test.go:9: no node"}, {"m/b.TestThree", "c_test.go:1: no python"}}}, false, exitOK,
			"skipped: m/a.TestOne and 1 more: no node\nskipped: m/b.TestThree: c_test.go:1: no python\n3 passed, 0 failed, 3 skipped\n"},
		{"a skip under CI", tally{passed: 3, skipped: skipped}, true, exitFailed,
			"skipped: m/a.TestNode: node is not installed\ncheck: skipped tests are failures under CI=true\n3 passed, 0 failed, 1 skipped\n"},
		{"a problem beside the tests", tally{passed: 3, problems: problems{"coverage: below"}}, false, exitFailed,
			"check: coverage: below\n3 passed, 0 failed, 0 skipped\n"},
		{"nothing at all", tally{}, false, exitFailed, "check: nothing ran\n0 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if code := tt.tally.finish(&out, tt.ci); code != tt.code || out.String() != tt.want {
				t.Errorf("finish: got code %d and\n%swant code %d and\n%s", code, out.String(), tt.code, tt.want)
			}
		})
	}
}
