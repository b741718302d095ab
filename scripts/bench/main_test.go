package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestBenchmarkLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	rest, err := benchmarkLines(strings.NewReader(`goos: linux
goarch: amd64
pkg: example.com/m/a
cpu: Some CPU @ 2.20GHz
BenchmarkDecide-2   	  120000	      9876 ns/op	     128 B/op	       3 allocs/op
--- BENCH: BenchmarkDecide-2
    a_test.go:9: noise
BenchmarkTurn-2     	      50	   1234567 ns/op	         7.000 writes/op	    4096 B/op	      30 allocs/op
PASS
ok  	example.com/m/a	2.1s
goos: linux
goarch: amd64
pkg: example.com/m/b
cpu: Some CPU @ 2.20GHz
BenchmarkNames is only a log line
--- FAIL: BenchmarkBad
    b_test.go:3: bad
FAIL`), &out)
	if err != nil {
		t.Fatal(err)
	}
	wantOut := `goos: linux
goarch: amd64
pkg: example.com/m/a
cpu: Some CPU @ 2.20GHz
BenchmarkDecide-2   	  120000	      9876 ns/op	     128 B/op	       3 allocs/op
BenchmarkTurn-2     	      50	   1234567 ns/op	         7.000 writes/op	    4096 B/op	      30 allocs/op
pkg: example.com/m/b
`
	wantRest := `--- BENCH: BenchmarkDecide-2
    a_test.go:9: noise
PASS
ok  	example.com/m/a	2.1s
BenchmarkNames is only a log line
--- FAIL: BenchmarkBad
    b_test.go:3: bad
FAIL`
	if diff := cmp.Diff(wantOut, out.String()); diff != "" {
		t.Errorf("benchmark lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantRest, rest); diff != "" {
		t.Errorf("other lines (-want +got):\n%s", diff)
	}
}

func TestBenchmarkLinesOfABrokenPipe(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := benchmarkLines(iotest.ErrReader(broken), &strings.Builder{}); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

// TestRun runs command lines on a module with one package that has benchmarks and one that would not
// even build.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.26\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc BenchmarkA(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}\n\nfunc BenchmarkBad(b *testing.B) { b.Fatal(\"no good\") }\n",
		"b/b_test.go": "package b\n\nfunc x() { return 1 }\n",
		"c/c_test.go": "package c\n\nfunc {\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name             string
		args             []string
		code             int
		wantOut, wantErr string
	}{
		{"runs what has benchmarks", []string{"-bench", "^BenchmarkA$", "-benchtime", "3x", "-count", "2", "./a", "./b"}, 0, "BenchmarkA", ""},
		{"shows a failure in full", []string{"-benchtime=3x", "./a"}, 1, "BenchmarkA", "no good"},
		{"no benchmark", []string{"./b"}, 1, "", "no package has a benchmark"},
		{"a file that is not Go", nil, 1, "", "c_test.go:3:6"},
		{"no such package", []string{"./gone"}, 1, "", "gone"},
		{"wrong flag", []string{"-fast"}, 2, "", "-fast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, errOut strings.Builder
			code := run(t.Context(), dir, tt.args, &out, &errOut)
			if code != tt.code || !strings.Contains(out.String(), tt.wantOut) || !strings.Contains(errOut.String(), tt.wantErr) {
				t.Errorf("got code %d, output\n%s\nand errors\n%s\nwant code %d, %q and %q", code, out.String(), errOut.String(), tt.code, tt.wantOut, tt.wantErr)
			}
			for line := range strings.Lines(out.String()) {
				if !strings.HasPrefix(line, "Benchmark") && !strings.Contains(line, ": ") {
					t.Errorf("not a benchmark line: %q", line)
				}
			}
		})
	}
}
