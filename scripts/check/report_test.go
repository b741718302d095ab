package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestReport reads recordings of go test -json, one of each way in which a package can end.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		want tally
		out  string
	}{
		{"pass", tally{passed: 3}, "ok  \texample.com/fx/ok\t0.004s\n"},
		{"fail", tally{passed: 1, failed: 2}, `
example.com/fx/a.TestFail/one:
    a_test.go:5: bad
--- FAIL: TestFail/one (0.00s)


example.com/fx/a.TestFail:
--- FAIL: TestFail (0.00s)

-test.shuffle 1796084085110883409
FAIL
FAIL	example.com/fx/a	0.003s
`},
		{"skip", tally{passed: 1, skipped: []skip{
			{test: "example.com/fx/a.TestSkip", reason: "a_test.go:4: node is not installed, install it with apt-get"},
			{test: "example.com/fx/a.TestMute", reason: "no reason given"},
		}}, "ok  \texample.com/fx/a\t0.003s\n"},
		{"build", tally{failed: 1}, `# example.com/fx/c [example.com/fx/c.test]
c/c.go:2:23: cannot use "x" (untyped string constant) as int value in return statement
FAIL	example.com/fx/c [build failed]
`},
		{"panic", tally{failed: 2}, `
example.com/fx/d.TestPanic/in:
--- FAIL: TestPanic/in (0.00s)


example.com/fx/d.TestPanic:
--- FAIL: TestPanic (0.00s)
panic: boom [recovered, repanicked]

goroutine 8 [running]:

-test.shuffle 1796084085785781145
FAIL	example.com/fx/d	0.004s
`},
		{"exit", tally{failed: 1}, `
example.com/fx/e.TestExit did not end:
to stderr

-test.shuffle 1796084085911380137
FAIL	example.com/fx/e	0.002s
`},
		{"testmain", tally{passed: 1, failed: 1}, "goroutines leaked: 2\nFAIL\texample.com/fx/f\t0.002s\n"},
		{"notests", tally{}, ""},
		{"foreign", tally{passed: 1}, "not an event\n{\"json\": \"of another kind\"}\nok  \texample.com/fx/ok\t(cached)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, err := os.Open(filepath.Join("testdata", "events", tt.name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var got tally
			var out strings.Builder
			if err := newReport(&out, &got).read(file); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(tally{}, skip{})); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.out, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportOfABrokenPipe(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := newReport(io.Discard, &tally{}).read(iotest.ErrReader(broken))
	if !errors.Is(err, broken) {
		t.Errorf("read: got error %v, want %v", err, broken)
	}
}
