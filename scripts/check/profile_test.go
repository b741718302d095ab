package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadProfileAddsUpWhatEachBinaryWrote(t *testing.T) {
	t.Parallel()
	got, err := readProfile(strings.NewReader(`mode: atomic
m/b/b.go:3.1,4.2 2 0
m/a/a.go:20.19,22.30 1 0
m/a/a.go:7.1,9.9 3 18446744073709551615

m/a/a.go:20.19,22.30 1 4
m/a/a.go:7.1,9.9 3 0
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []block{
		{file: "m/a/a.go", line: 7, statements: 3, hit: true},
		{file: "m/a/a.go", line: 20, statements: 1, hit: true},
		{file: "m/b/b.go", line: 3, statements: 2},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(block{})); diff != "" {
		t.Errorf("readProfile (-want +got):\n%s", diff)
	}
}

func TestReadProfileNamesTheBadLine(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"words", "m/a.go 1 2", "m/a.go:1,2 1 2", "m/a.go:1.1,2.2 1", "m/a.go:x.1,2.2 1 2", "m/a.go:1.1,2.2 x 2", "m/a.go:1.1,2.2 1 -2",
	} {
		_, err := readProfile(strings.NewReader("mode: set\n" + line + "\n"))
		if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), line) {
			t.Errorf("readProfile of %q: got error %v, want one that names line 2 and its text", line, err)
		}
	}
	if _, err := readProfile(strings.NewReader(strings.Repeat("x", 1<<17))); err == nil {
		t.Error("readProfile of a line of 128 KiB: got no error")
	}
}
