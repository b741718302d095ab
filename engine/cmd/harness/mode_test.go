package main

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/coder/websocket"
)

// modes are the ways in which the end-to-end suite runs beside the plain one:
// all workers in one process, no limits of API Gateway. Each is the flags that
// its servers get.
var modes = map[string][]string{
	"strict": {"--strict"},
}

const modeVariable = "HARNESS_TEST_MODE"

// modeFlags are the flags of every server of this run.
func modeFlags(t testing.TB) []string {
	t.Helper()
	name := os.Getenv(modeVariable)
	if name == "" {
		return nil
	}
	flags, ok := modes[name]
	if !ok {
		t.Fatalf("%s is %q, which is no mode", modeVariable, name)
	}
	return flags
}

// TestSuiteInEveryMode runs the tests of this package once more in each mode.
func TestSuiteInEveryMode(t *testing.T) {
	if os.Getenv(modeVariable) != "" {
		t.Skip("this is a run in a mode")
	}
	if testing.Short() {
		t.Skip("takes as long as the suite")
	}
	for name := range modes {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.shuffle=on")
			cmd.Env = append(os.Environ(), modeVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// socket opens a socket to the server without a client.
func (s *server) socket(t testing.TB) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), s.ready.Bus, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + s.ready.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// notStrict skips a test of what a strict server does not have.
func notStrict(t testing.TB, what string) {
	t.Helper()
	if slices.Contains(modeFlags(t), "--strict") {
		t.Skip("a strict server has no " + what)
	}
}

// address is host and port of the server's bus.
func (s *server) address(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(s.ready.Bus)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
