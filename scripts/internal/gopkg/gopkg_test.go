package gopkg_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

// module lays out a module in a temporary folder; files maps slash-separated names to contents.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestListNamesPackagesBelowTheModule(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{
		"root.go":             "package m\n",
		"a/a.go":              "package a\n",
		"a/a_test.go":         "package a\n",
		"a/x_test.go":         "package a_test\n",
		"a/testdata/t.go":     "package t\n",
		"cmd/x/main.go":       "package main\nfunc main() {}\n",
		"broken/b.go":         "package broken\nfunc B() int { return }\n",
		"other/only_plan9.go": "//go:build plan9\n\npackage other\n",
	})
	packages, err := gopkg.List(t.Context(), dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range packages {
		got[p.Rel()] = p.Name + " " + strings.Join(append(p.TestGoFiles, p.XTestGoFiles...), " ")
	}
	want := map[string]string{
		".":      "m ",
		"a":      "a a_test.go x_test.go",
		"cmd/x":  "main ",
		"broken": "broken ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestListSaysWhatGoListSaid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, dir, pattern, want string }{
		{"outside a module", t.TempDir(), "./...", "main module"},
		{"no such folder", module(t, map[string]string{"a/a.go": "package a\n"}), "./nope", "nope"},
		{"no such folder to start", filepath.Join(t.TempDir(), "gone"), "./...", "gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := gopkg.List(t.Context(), tt.dir, tt.pattern)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("List: got error %v, want one that contains %q", err, tt.want)
			}
		})
	}
}

func TestTestFuncs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src := `package a

import (
	"testing"
	tt "testing"
	. "testing"
)

func FuzzDecode(f *testing.F)          {}
func Fuzz(f *testing.F)                {}
func Fuzz_under(f *tt.F)               {}
func FuzzDot(*F)                       {}
func Fuzzy(f *testing.F)               {}
func FuzzHelper(f *testing.F, n int)   {}
func FuzzTwo(f, g *testing.F)          {}
func FuzzResult(f *testing.F) int      { return 0 }
func FuzzGeneric[T any](f *testing.F)  {}
func FuzzValue(f testing.F)            {}
func FuzzWrong(t *testing.T)           {}
func FuzzSlice(f *[]int)               {}
func (s suite) FuzzMethod(f *testing.F) {}
func BenchmarkDecode(b *testing.B)     {}
func TestDecode(t *testing.T)          {}

type suite struct{}

var FuzzVar = 1
`
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte("package a_test\n\nimport \"testing\"\n\nfunc FuzzOutside(f *testing.F) {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := gopkg.Package{Dir: dir, TestGoFiles: []string{"a_test.go"}, XTestGoFiles: []string{"x_test.go"}}
	for _, tt := range []struct {
		name string
		kind gopkg.Kind
		want []string
	}{
		{"fuzz targets", gopkg.Fuzz, []string{"FuzzDecode", "Fuzz", "Fuzz_under", "FuzzDot", "FuzzOutside"}},
		{"benchmarks", gopkg.Benchmark, []string{"BenchmarkDecode"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := p.TestFuncs(tt.kind)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("TestFuncs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTestFuncsNamesTheFileItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad_test.go"), []byte("package a\nfunc {"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bad_test.go", "absent_test.go"} {
		_, err := gopkg.Package{Dir: dir, TestGoFiles: []string{name}}.TestFuncs(gopkg.Fuzz)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("TestFuncs of %s: got error %v, want one that names the file", name, err)
		}
	}
}
