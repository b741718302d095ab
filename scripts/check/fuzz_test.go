package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fuzzModule = "module example.com/m\n\ngo 1.26\n"

// TestFuzzOutcomes gives each answer that go test -fuzz has, and wants it told apart.
func TestFuzzOutcomes(t *testing.T) {
	t.Parallel()
	const progress = "fuzz: elapsed: 0s, gathering baseline coverage: 0/3 completed\nfuzz: elapsed: 10s, execs: 812 (81/sec), new interesting: 3 (total: 9)\n"
	for _, tt := range []struct {
		name, out, exit string
		code            int
		want            string
	}{
		{"passes", progress + "PASS\nok  \texample.com/m/a\t10.2s\n", "0", exitOK, "execs: 812 (81/sec), new interesting: 3 (total: 9)\n"},
		{"finds a failing input", progress + "--- FAIL: FuzzA (0.10s)\n    --- FAIL: FuzzA (0.00s)\n        a_test.go:9: context deadline exceeded\n\n    Failing input written to testdata/fuzz/FuzzA/1\nFAIL\n", "1",
			exitFailed, "Failing input written to testdata/fuzz/FuzzA/1\n"},
		{"fails on a seed", "--- FAIL: FuzzA (0.10s)\n    context deadline exceeded\n    more\nFAIL\n", "1", exitFailed, "    more\n"},
		{"deadline while it minimizes", progress + "fuzz: minimizing 12-byte failing input file\n--- FAIL: FuzzA (10.10s)\n    context deadline exceeded\nFAIL\n", "1", exitFailed, "exceeded\n"},
		{"end of time taken for a failure", progress + "--- FAIL: FuzzA (10.10s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample.com/m/a\t10.2s\n", "1",
			exitOK, "(total: 9) (end of time reported as a failure: go.dev/issue/75804)\n"},
		{"does not build", "# example.com/m/a\na.go:1:1: bad\nFAIL\texample.com/m/a [build failed]\n", "1", exitFailed, "a.go:1:1: bad\n"},
		{"says nothing", "", "1", exitFailed, "exit status 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, map[string]string{
				"go.mod": fuzzModule, "a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) {}\n",
				"test.out": tt.out, "test.code": tt.exit,
			})
			got := check(t, dir, true, true, "fuzz", "-time", "10s")
			if got.code != tt.code || !strings.Contains(got.out, tt.want) {
				t.Errorf("got code %d and\n%s\nwant code %d and a text with %q", got.code, got.out, tt.code, tt.want)
			}
			closing := "1 passed, 0 failed, 0 skipped"
			if tt.code != exitOK {
				closing = "0 passed, 1 failed, 0 skipped"
			}
			wantLines(t, got.out, closing)
		})
	}
}

// TestFuzzRunsEachTargetAlone reads from the calls what was run: no target's pattern matches another.
func TestFuzzRunsEachTargetAlone(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{
		"go.mod":      fuzzModule,
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) {}\nfunc FuzzAll(f *testing.F) {}\nfunc TestA(t *testing.T) {}\n",
		"b/x_test.go": "package b_test\n\nimport \"testing\"\n\nfunc FuzzB(f *testing.F) {}\n",
		"c/c_test.go": "package c\n\nimport \"testing\"\n\nfunc FuzzC(f *testing.F) {}\n",
	})
	got := check(t, dir, true, true, "fuzz", "-time=7s", "./a", "./b")
	wantLines(t, got.out, "3 passed, 0 failed, 0 skipped")
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, string(calls),
		"test -vet=off -run=^$ -fuzz=^FuzzA$ -fuzztime=7s -fuzzminimizetime=1s -parallel=1 example.com/m/a",
		"test -vet=off -run=^$ -fuzz=^FuzzAll$ -fuzztime=7s -fuzzminimizetime=1s -parallel=1 example.com/m/a",
		"test -vet=off -run=^$ -fuzz=^FuzzB$ -fuzztime=7s -fuzzminimizetime=1s -parallel=1 example.com/m/b",
	)
	if n := strings.Count(string(calls), "\n"); n != 3 {
		t.Errorf("got %d calls, want 3:\n%s", n, calls)
	}
}

func TestFuzzOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{"go.mod": fuzzModule, "a/a.go": "package a\n", "a/a_test.go": "package a\n\nfunc {\n"})
	for pattern, want := range map[string]string{"./a": "a_test.go:3:6", "./gone": "gone"} {
		got := check(t, dir, true, false, "fuzz", pattern)
		if got.code != exitFailed || !strings.Contains(got.out, want) {
			t.Errorf("fuzz %s: got code %d and\n%s\nwant code %d and a text with %q", pattern, got.code, got.out, exitFailed, want)
		}
	}
}
