package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small is a module with a package of each kind that the gates tell apart. Its policy is covered by
// the tests of another package only.
func small() map[string]string {
	return map[string]string{
		"go.mod":                       "module example.com/m\n\ngo 1.26\n",
		"internal/policy/policy.go":    "package policy\n\nfunc Allow(n int) bool {\n\tif n > 3 {\n\t\treturn false\n\t}\n\treturn true\n}\n",
		"engine/bus/bus.go":            "package bus\n\nimport \"example.com/m/internal/policy\"\n\nfunc Call(n int) bool { return policy.Allow(n) }\n",
		"engine/bus/bus_test.go":       "package bus_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/engine/bus\"\n)\n\nfunc TestCall(t *testing.T) {\n\tif !bus.Call(1) || bus.Call(4) {\n\t\tt.Fatal(\"bad\")\n\t}\n}\n\nfunc FuzzCall(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) { bus.Call(n) })\n}\n",
		"engine/enginetest/suite.go":   "package enginetest\n\nfunc Run(bad bool) {\n\tif bad {\n\t\tpanic(\"bad\")\n\t}\n}\n",
		"engine/cmd/tool/main.go":      "package main\n\nfunc main() { println() }\n",
		"functions/shell/main.go":      "package main\n\nfunc main() { println() }\n",
		"internal/agent/only_types.go": "package agent\n\ntype Message struct{ Text string }\n",
	}
}

// TestAllOnARealModule runs everything once with the real go command.
func TestAllOnARealModule(t *testing.T) {
	t.Parallel()
	dir := files(t, small())
	got := check(t, dir, false, false, "all", "-fuzztime", "20x")
	if got.code != exitOK {
		t.Errorf("got code %d, want 0", got.code)
	}
	wantLines(t, got.out,
		"coverage: there is no package internal/turn/step, so its gate of 100 % judged nothing",
		"coverage: packages at their gates or above: 2, all of them",
		"4 passed, 0 failed, 0 skipped") // TestCall, FuzzCall and its seed, the run that fuzzes
	if !strings.Contains(got.out, "fuzz: ok    engine/bus FuzzCall") || !strings.HasSuffix(got.out, "0 skipped\n") {
		t.Errorf("no fuzz run, or not the closing line at the end:\n%s", got.out)
	}
	if t.Failed() {
		t.Logf("output:\n%s%s", got.out, got.errOut)
	}
	if _, err := os.Stat(filepath.Join(dir, "engine/bus/testdata")); err == nil {
		t.Error("fuzzing left files in the tree")
	}
}

// TestCoverOnARealModule leaves a branch of the policy and a package without tests uncovered, and runs
// over the profile of an earlier run.
func TestCoverOnARealModule(t *testing.T) {
	t.Parallel()
	module := small()
	module["engine/bus/bus_test.go"] = strings.ReplaceAll(module["engine/bus/bus_test.go"], " || bus.Call(4)", "")
	module["internal/lonely/lonely.go"] = "package lonely\n\nfunc Alone() int { return 1 }\n"
	module["cover.out"] = "of an earlier run"
	got := check(t, files(t, module), false, false, "cover")
	if got.code != exitFailed {
		t.Errorf("got code %d, want %d", got.code, exitFailed)
	}
	flat := strings.Join(strings.Fields(got.out), " ")
	for _, want := range []string{
		"coverage engine/bus 100.0 % of 85 %",
		"coverage internal/lonely 0.0 % of 85 % not covered: lonely.go:3",
		"coverage internal/policy 66.6 % of 100 % not covered: policy.go:4",
		"check: coverage: 2 of 3 packages are below their gate 3 passed, 0 failed, 0 skipped",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in:\n%s%s", want, got.out, got.errOut)
		}
	}
}

// TestAllStopsAtFailedTests: coverage and fuzzing of a broken tree say nothing.
func TestAllStopsAtFailedTests(t *testing.T) {
	t.Parallel()
	dir := files(t, small())
	writeEvents(t, dir, "fail", "1")
	got := check(t, dir, true, false, "all")
	if got.code != exitFailed {
		t.Errorf("got code %d, want %d", got.code, exitFailed)
	}
	wantLines(t, got.out, "coverage is incomplete: tests failed", "fuzz targets not run: tests failed", "1 passed, 2 failed, 0 skipped")
}

// TestCoverWithFailedTests still prints the table of what ran.
func TestCoverWithFailedTests(t *testing.T) {
	t.Parallel()
	module := small()
	module["engine/bus/bus_test.go"] = strings.ReplaceAll(module["engine/bus/bus_test.go"], "bus.Call(4)", "!bus.Call(4)")
	got := check(t, files(t, module), false, false, "cover")
	if got.code != exitFailed || !strings.Contains(got.out, "--- FAIL: TestCall") {
		t.Errorf("got code %d, want %d and the failure in full", got.code, exitFailed)
	}
	wantLines(t, got.out, "coverage is incomplete: tests failed", "coverage  engine/bus       100.0 %  of 85 %", "2 passed, 1 failed, 0 skipped")
	if t.Failed() {
		t.Logf("output:\n%s%s", got.out, got.errOut)
	}
}

// TestRaceOff has each way in which the race detector can be missing.
func TestRaceOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, build, cc, want string }{
		{"no compiler", "go: -race requires cgo; enable cgo by setting CGO_ENABLED=1\n", "no-such-gcc -m64\n",
			"no C compiler (no-such-gcc is not on PATH; install one, or name yours in CC)"},
		{"cgo turned off", "go: -race requires cgo; enable cgo by setting CGO_ENABLED=1\n", "sh\n", "-race requires cgo; enable cgo by setting CGO_ENABLED=1"},
		{"no C library", "# runtime/cgo\n_cgo_export.c:3:10: fatal error: stdlib.h: No such file or directory\n", "sh\n",
			"_cgo_export.c:3:10: fatal error: stdlib.h: No such file or directory"},
		{"no word", "", "\n", "exit status 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, map[string]string{"build.out": tt.build, "build.code": "2", "env.out": tt.cc})
			writeEvents(t, dir, "pass", "0")
			got := check(t, dir, true, false, "test")
			if got.code != exitOK {
				t.Errorf("got code %d, want 0; output:\n%s", got.code, got.out)
			}
			wantLines(t, got.out, "race detector off: "+tt.want, "3 passed, 0 failed, 0 skipped")

			got = check(t, dir, true, true, "test")
			if got.code != exitFailed {
				t.Errorf("under CI: got code %d, want %d; output:\n%s", got.code, exitFailed, got.out)
			}
			wantLines(t, got.out, "check: race detector off: "+tt.want+"; under CI=true that is a failure", "0 passed, 0 failed, 0 skipped")

			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(calls), "test -json -vet=off -shuffle=on -timeout=40m -race") || strings.Count(string(calls), "test -json") != 1 {
				t.Errorf("want one run of the tests, without -race and not under CI; calls:\n%s", calls)
			}
		})
	}
}

// TestRun has what can be wrong beside the tests.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, events, exit string
		files              map[string]string
		args               []string
		ci                 bool
		code               int
		want               []string
	}{
		{"passes with race and shuffle", "pass", "0", nil, []string{"test", "./a"}, true, exitOK, []string{"3 passed, 0 failed, 0 skipped"}},
		{"a skip", "skip", "0", nil, []string{"test"}, false, exitOK, []string{
			"skipped: example.com/fx/a.TestSkip: a_test.go:4: node is not installed, install it with apt-get",
			"skipped: example.com/fx/a.TestMute: no reason given", "1 passed, 0 failed, 2 skipped"}},
		{"a skip under CI", "skip", "0", nil, []string{"test"}, true, exitFailed, []string{
			"check: skipped tests are failures under CI=true", "1 passed, 0 failed, 2 skipped"}},
		{"go test fails by itself", "pass", "2", nil, []string{"test"}, false, exitFailed, []string{"check: go test failed with no failed test: exit status 2"}},
		{"no test", "notests", "0", nil, []string{"test"}, false, exitFailed, []string{"check: nothing ran"}},
		{"no gated package", "pass", "0", map[string]string{"go.mod": fuzzModule, "a/a.go": "package a\n"}, []string{"cover"}, false, exitOK, []string{"3 passed, 0 failed, 0 skipped"}},
		{"no profile", "pass", "0", small(), []string{"cover", "-profile", "p.out"}, false, exitFailed, nil},
		{"no module", "pass", "0", nil, []string{"cover"}, false, exitFailed, nil},
		{"profile is a folder with files", "pass", "0", map[string]string{"go.mod": fuzzModule, "p/a": ""}, []string{"all", "-profile", "p"}, false, exitFailed, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, tt.files)
			writeEvents(t, dir, tt.events, tt.exit)
			got := check(t, dir, true, tt.ci, tt.args...)
			if got.code != tt.code {
				t.Errorf("got code %d, want %d; output:\n%s", got.code, tt.code, got.out)
			}
			wantLines(t, got.out, tt.want...)
			if tt.code == exitFailed && !strings.Contains(got.out, "check: ") {
				t.Errorf("failed without a reason:\n%s", got.out)
			}
		})
	}
}

func TestTestPassesRaceShuffleAndPackages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeEvents(t, dir, "pass", "0")
	check(t, dir, true, true, "test", "./a", "./b/...")
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, string(calls), "build -race runtime/cgo", "test -json -vet=off -shuffle=on -timeout=40m -race ./a ./b/...")
}

func TestNoGoCommand(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := &checker{dir: t.TempDir(), goCmd: filepath.Join(t.TempDir(), "go"), out: &out, errOut: io.Discard}
	if code := c.run(t.Context(), []string{"test"}); code != exitFailed || !strings.Contains(out.String(), "check: go test: ") {
		t.Errorf("got code %d and\n%s\nwant code %d and the reason", code, out.String(), exitFailed)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := files(t, small())
	writeEvents(t, dir, "pass", "0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"test", "cover", "fuzz", "all"} {
		var out strings.Builder
		c := &checker{dir: dir, goCmd: "go", out: &out, errOut: io.Discard}
		if code := c.run(ctx, []string{name}); code != exitFailed || !strings.Contains(out.String(), "check: interrupted\n") {
			t.Errorf("check %s: got code %d and\n%s\nwant code %d and the word that it was interrupted", name, code, out.String(), exitFailed)
		}
	}
}

// writeEvents makes the fake go command answer a test run with a recording and an exit code.
func writeEvents(t *testing.T, dir, recording, code string) {
	t.Helper()
	events, err := os.ReadFile(filepath.Join("testdata", "events", recording+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"test.out": events, "test.code": []byte(code)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
