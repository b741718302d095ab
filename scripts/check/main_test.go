package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMain makes this test binary a go command for those tests that want to choose its answers: called
// with a subcommand in place of flags, it prints what the file SUBCOMMAND.out of its working folder
// holds, ends with the code in SUBCOMMAND.code, and notes its arguments in the file "calls".
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	// Not os.Exit: its hooks would print words of the coverage runtime among the fake's, and linger for
	// the race detector.
	syscall.Exit(fakeGo(os.Args[1:]))
}

func fakeGo(args []string) int {
	calls, err := os.OpenFile("calls", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(calls, strings.Join(args, " "))
	}
	if err == nil {
		err = calls.Close()
	}
	if err != nil {
		fmt.Println(err)
		return 99
	}
	if out, err := os.ReadFile(args[0] + ".out"); err == nil {
		fmt.Print(string(out))
	}
	code, err := os.ReadFile(args[0] + ".code")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(code))
	if err != nil {
		fmt.Println(err)
		return 99
	}
	return n
}

// files lays out files in a temporary folder; names have slashes.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
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

// result is what a command line came to.
type result struct {
	code        int
	out, errOut string
}

// check runs a command line in dir; fake makes this test binary its go command.
func check(t *testing.T, dir string, fake, ci bool, args ...string) result {
	t.Helper()
	var out, errOut strings.Builder
	c := &checker{dir: dir, goCmd: "go", ci: ci, out: &out, errOut: &errOut}
	if fake {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c.goCmd = self
	}
	code := c.run(t.Context(), args)
	return result{code: code, out: out.String(), errOut: errOut.String()}
}

// wantLines fails the test unless each of want is a line of text.
func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %q in:\n%s", line, text)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no check", nil, "which check? One of: gofmt, test, cover, fuzz, all"},
		{"unknown check", []string{"lint"}, `no check is called "lint"`},
		{"unknown flag", []string{"fuzz", "-depth", "3"}, "-depth"},
		{"packages where all are checked", []string{"all", "./engine/..."}, `got ["./engine/..."]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := check(t, t.TempDir(), true, false, tt.args...)
			if got.code != exitUsage || !strings.Contains(got.errOut, tt.want) {
				t.Errorf("check %q: got code %d and %q, want code %d and a text with %q", tt.args, got.code, got.errOut, exitUsage, tt.want)
			}
		})
	}
}

func TestGofmt(t *testing.T) {
	t.Parallel()
	const good = "package a\n\nfunc A() {}\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		code  int
		want  []string
	}{
		{"formatted", map[string]string{"a/a.go": good, "a/readme.txt": "x"}, exitOK, nil},
		{"not formatted", map[string]string{"a/a.go": good, "a/b.go": "package a\nfunc  B() { }\n", "c.go": "package c\n\n\n\n"}, exitFailed,
			[]string{"DIR/a/b.go", "DIR/c.go", "check: gofmt: files that need formatting: 2; run: make fmt"}},
		{"not Go", map[string]string{"a/a.go": "package a\nfunc {\n"}, exitFailed, []string{"DIR/a/a.go:2:6: expected 'IDENT', found '{'"}},
		{"left out", map[string]string{
			"testdata/a.go": "x", ".git/a.go": "x", "_old/a.go": "x", "node_modules/m/a.go": "x", "vendor/a.go": "x",
		}, exitOK, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, tt.files)
			got := check(t, dir, true, false, "gofmt")
			if got.code != tt.code {
				t.Errorf("got code %d, want %d; output:\n%s", got.code, tt.code, got.out)
			}
			if len(tt.want) == 0 && got.out != "" {
				t.Errorf("got output %q, want none", got.out)
			}
			wantLines(t, strings.ReplaceAll(got.out, dir, "DIR"), tt.want...)
		})
	}
}
