package sdk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestMain removes the program that the tests built.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "harness-sdk")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var programDir string

// program is the program under test, with the race detector if the tests have it.
var program = sync.OnceValues(func() (string, error) {
	file := filepath.Join(programDir, "harness")
	return file, Build(context.Background(), ".", file, buildFlags...)
})

// limit is how long anything may take: long enough for a machine under load.
const limit = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// serve starts a dev for one test. config is its config.yaml; "" for the
// defaults.
func serve(t testing.TB, config string, flags ...string) *Server {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Serve(file, dir, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", s.Log)
		}
	})
	return s
}

// stock skips a test for which the SDK is not installed.
func stock(t testing.TB, l Language) {
	t.Helper()
	var missing *NotInstalledError
	if _, err := l.Installed(); errors.As(err, &missing) {
		t.Skip("needs the stock SDKs, which make sdks installs: they were not tried")
	} else if err != nil {
		t.Fatal(err)
	}
}
