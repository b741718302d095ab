package shell

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tt := range []struct {
		name string
		req  any
		want ExecResponse
	}{
		{"success", ExecRequest{Command: "true"}, ExecResponse{Success: true}},
		{"both outputs", ExecRequest{Command: "echo out; echo err >&2"}, ExecResponse{Stdout: "out\n", Stderr: "err\n", Success: true}},
		{"failure", ExecRequest{Command: "echo half; exit 3"}, ExecResponse{Stdout: "half\n", ExitCode: 3}},
		{"killed", ExecRequest{Command: "kill -KILL $$"}, ExecResponse{ExitCode: 137}},
		{"terminated", ExecRequest{Command: "kill -TERM $$"}, ExecResponse{ExitCode: 143}},
		{"args", ExecRequest{Command: "printf", Args: []string{"%s|", "a b", "$HOME", "*", "", "'"}}, ExecResponse{Stdout: "a b|$HOME|*||'|", Success: true}},
		{"no args", json.RawMessage(`{"command":"pwd","args":[]}`), ExecResponse{Stdout: r.root + "\n", Success: true}},
		{"a line of sh", ExecRequest{Command: "cd docs && for f in *; do echo $f; done | tr b B"}, ExecResponse{Stdout: "B.txt\n", Success: true}},
		{"the host by name", ExecRequest{Command: "true", Target: &Target{Kind: "host"}}, ExecResponse{Success: true}},
		{"no input", ExecRequest{Command: "cat; echo end"}, ExecResponse{Stdout: "end\n", Success: true}},
		{"bytes that are no UTF-8", ExecRequest{Command: `printf 'a\377\376b\303'; printf '\303\251\000' >&2`}, ExecResponse{Stdout: "a\uFFFDb\uFFFD", Stderr: "é\x00", Success: true}},
		{"a program by its path", ExecRequest{Command: "./tool", Args: []string{"x"}}, ExecResponse{Stdout: "tool x\n", Success: true}},
		{"the longest limit", ExecRequest{Command: "true", TimeoutMS: 30000}, ExecResponse{Success: true}},
	} {
		if tt.name == "a program by its path" {
			r.write("tool", "#!/bin/sh\necho tool $1\n")
			if err := os.Chmod(filepath.Join(r.root, "tool"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.exec(tt.req)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
	}
}

func TestCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tt := range []struct {
		name       string
		req        any
		code, kind string
	}{
		{"NUL", ExecRequest{Command: "echo \x00"}, CodeInvalid, "invalid_request"},
		{"NUL in an argument", ExecRequest{Command: "echo", Args: []string{"a", "b\x00"}}, CodeInvalid, "invalid_request"},
		{"negative limit", ExecRequest{Command: "true", TimeoutMS: -1}, CodeInvalid, "invalid_request"},
		{"limit too long", ExecRequest{Command: "true", TimeoutMS: 30001}, CodeInvalid, "invalid_request"},
		{"limit beyond all", ExecRequest{Command: "true", TimeoutMS: 1<<63 - 1}, CodeInvalid, "invalid_request"},
		{"sandbox", ExecRequest{Command: "true", Target: &Target{Kind: "sandbox", SandboxID: "x"}}, CodeTarget, "target"},
		{"target of no kind", ExecRequest{Command: "true", Target: &Target{}}, CodeTarget, "target"},
		{"no such program", json.RawMessage(`{"command":"no-such-program","args":[]}`), CodeStart, "not_started"},
		{"a folder", json.RawMessage(`{"command":"./docs","args":[]}`), CodeStart, "not_started"},
		{"a line as a program", json.RawMessage(`{"command":"echo hi","args":[]}`), CodeStart, "not_started"},
		{"more than the system takes", ExecRequest{Command: "echo", Args: []string{strings.Repeat("x", 4<<20)}}, CodeStart, "not_started"},
	} {
		_, err := r.exec(tt.req)
		wantError(t, tt.name, err, tt.code, tt.kind)
	}
	for _, data := range []string{`{}`, `{"command":""}`, `{"command":" \n"}`} {
		if _, err := r.exec(json.RawMessage(data)); err == nil || err.Error() != "missing required field: command" {
			t.Errorf("%s: error %v", data, err)
		}
	}
	if _, err := r.exec(json.RawMessage(`{"command":"true","args":"x"}`)); bus.Code(err) != "invalid_payload" || !strings.Contains(err.Error(), "args") {
		t.Errorf("error %v", err)
	}
}

func TestF36EnvironmentHasNoSecret(t *testing.T) { // not parallel: it sets the environment
	t.Setenv("HARNESS_TOKEN", secret+"-inherited")
	hidden := []string{
		"HARNESS_TOKEN", "HARNESS_ANYTHING", "harness_lower", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "ANTHROPIC_API_KEY", "MY_PROVIDER", "OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD",
		"GOOGLE_APPLICATION_CREDENTIALS", "CLIENT_SECRET", "SSH_PRIVATE_KEY", "OTEL_EXPORTER_OTLP_HEADERS", "github_token", "MAPS_APIKEY", "S3_ACCESS_KEY",
	}
	r := newRig(t, func(_ *rig, d *Deps) {
		d.SecretEnv = []string{"my_provider"}
		d.Environ = func() []string {
			env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/me", "PWD=/elsewhere", "ODD", "KEYBOARD=qwerty"}
			for _, n := range hidden {
				env = append(env, n+"="+secret)
			}
			return env
		}
	})
	out := r.sh("env")
	for _, want := range []string{"HOME=/home/me\n", "KEYBOARD=qwerty\n", "PWD=" + r.root + "\n"} {
		if !strings.Contains(out.Stdout, want) {
			t.Errorf("the environment lacks %s", want)
		}
	}
	if strings.Contains(out.Stdout, secret) {
		t.Errorf("the environment has a secret:\n%s", out.Stdout)
	}
	// With nothing left the command must not inherit everything.
	for _, environ := range []func() []string{nil, func() []string { return nil }, func() []string { return []string{"HARNESS_TOKEN=" + secret} }} {
		r := newRig(t, func(_ *rig, d *Deps) { d.Environ = environ })
		if out := r.sh("/usr/bin/env"); strings.Contains(out.Stdout, secret) {
			t.Errorf("the environment has a secret:\n%s", out.Stdout)
		}
	}
}

func TestLongOutputGoesToABlob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out := r.sh("head -c 1048576 /dev/zero | tr '\\0' x")
	if len(out.Stdout) != MaxOutput || out.Truncated || out.StdoutBlob != nil {
		t.Errorf("%d bytes, truncated %v", len(out.Stdout), out.Truncated)
	}
	// A cut in the middle of a rune, and both outputs at once.
	out = r.sh("printf x; head -c 2000000 /dev/zero | tr '\\0' a | sed 's/a/é/g'; head -c 1048577 /dev/zero | tr '\\0' b >&2")
	if len(out.Stdout) != MaxOutput-1 || !strings.HasPrefix(out.Stdout, "xéé") || strings.ContainsRune(out.Stdout, utf8.RuneError) || !utf8.ValidString(out.Stdout) || !out.Truncated || !out.Success {
		t.Errorf("%d bytes, %.10q, truncated %v", len(out.Stdout), out.Stdout, out.Truncated)
	}
	if b := r.blobs.get(out.StdoutBlob); len(b) != 4000001 || out.StdoutBlob.Blob.MIME != "text/plain; charset=utf-8" || !strings.HasPrefix(out.StdoutBlob.Blob.ID, "s1/") || string(b[:MaxOutput-1]) != out.Stdout {
		t.Errorf("%d bytes in %+v", len(b), out.StdoutBlob)
	}
	if b := r.blobs.get(out.StderrBlob); len(b) != 1048577 || len(out.Stderr) != MaxOutput {
		t.Errorf("%d bytes in %+v", len(b), out.StderrBlob)
	}
	// More than is kept, and no text at all: the command is not blocked.
	out = r.sh("head -c 20000000 /dev/zero | tr '\\0' '\\377'; echo end >&2")
	if b := r.blobs.get(out.StdoutBlob); len(b) != maxKept || out.StdoutBlob.Blob.MIME != "application/octet-stream" || !utf8.ValidString(out.Stdout) || out.Stderr != "end\n" || !out.Truncated {
		t.Errorf("%d bytes in %+v, %q", len(b), out.StdoutBlob, out.Stderr)
	}
}

func TestLongOutputThatCannotBeKept(t *testing.T) {
	t.Parallel()
	const long = "head -c 1100000 /dev/zero | tr '\\0' x"
	for _, tt := range []struct {
		name   string
		change func(*rig, *Deps)
		reply  *bus.Reply
		log    string
	}{
		{name: "no session"},
		{name: "no store", change: func(_ *rig, d *Deps) { d.Blobs = nil }, reply: &bus.Reply{SessionID: "s"}},
		{name: "store that fails", change: func(r *rig, _ *Deps) { r.blobs.fail = errors.New("disk full") }, reply: &bus.Reply{SessionID: "s"}, log: "disk full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			change := tt.change
			if change == nil {
				change = func(*rig, *Deps) {}
			}
			r := newRig(t, change)
			out, err := invoke[ExecResponse](r, t.Context(), "shell::exec", ExecRequest{Command: long}, tt.reply)
			if err != nil || len(out.Stdout) != MaxOutput || !out.Truncated || out.StdoutBlob != nil || !out.Success {
				t.Errorf("%d bytes, truncated %v, blob %v, %v", len(out.Stdout), out.Truncated, out.StdoutBlob, err)
			}
			if (tt.log == "") != (r.log.String() == "") || !strings.Contains(r.log.String(), tt.log) {
				t.Errorf("log: %s", r.log)
			}
		})
	}
}

func TestWholeRunes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "a": "a", "é": "é", "a\xc3": "a", "a\xf0\x9f\x98": "a", "a\xf0": "a", "😀": "😀", "a\x98": "a\x98", "\x98\x98\x98\x98\x98": "\x98\x98\x98\x98\x98", "a\xff": "a\xff",
	} {
		if got := string(wholeRunes([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := func(raw string) func(*rig, *Deps) {
		return func(_ *rig, d *Deps) { d.Config = json.RawMessage(raw) }
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, config(`{"root":`+string(quoted)+`,"timeout_ms":500}`))
	if r.shell.folder.path != root || r.shell.deps.MaxTimeout != 500*time.Millisecond {
		t.Errorf("root %s, limit %s", r.shell.folder.path, r.shell.deps.MaxTimeout)
	}
	_, err = r.exec(ExecRequest{Command: "true", TimeoutMS: 501})
	wantError(t, "limit of the config", err, CodeInvalid, "invalid_request")

	r = newRig(t, config(`{"deny":["rm +-rf","^sudo "]}`))
	for _, req := range []ExecRequest{{Command: "rm  -rf x"}, {Command: "rm", Args: []string{"-rf", "x"}}, {Command: "sudo", Args: []string{"true"}}} {
		_, err := r.exec(req)
		wantError(t, req.Command, err, CodeRefused, "refused")
	}
	if out := r.sh("echo sudo"); !out.Success {
		t.Errorf("%+v", out)
	}

	r = newRig(t, config(`{"allow":["echo","ls"]}`))
	for _, req := range []ExecRequest{
		{Command: "rm x"}, {Command: "echo a; rm x"}, {Command: "echo a && rm x"}, {Command: "echo a | sh"}, {Command: "echo `rm x`"}, {Command: "echo $(rm x)"}, {Command: "echo a\nrm x"},
		{Command: "echo a > a.txt"}, {Command: "cat < a.txt"}, {Command: "X=1 rm x"}, {Command: "rm", Args: []string{"x"}}, {Command: "/bin/echo", Args: []string{"x"}}, {Command: "echo a", Args: []string{"b"}},
	} {
		_, err := r.exec(req)
		wantError(t, req.Command, err, CodeRefused, "refused")
	}
	for _, req := range []ExecRequest{{Command: " echo a "}, {Command: "echo", Args: []string{"a"}}, {Command: "ls", Args: []string{"a.txt"}}} {
		if out, err := r.exec(req); err != nil || !out.Success {
			t.Errorf("%s: %+v, %v", req.Command, out, err)
		}
	}
	if got, err := r.exec(ExecRequest{Command: "echo", Args: []string{"a; rm x"}}); err != nil || got.Stdout != "a; rm x\n" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"rot":"x"}`:          "invalid workers.shell.config: must be root (a folder)",
		`7`:                    "invalid workers.shell.config: must be root (a folder)",
		`{"deny":"x"}`:         "invalid workers.shell.config: must be root (a folder)",
		`{"deny":["a","("]}`:   "invalid workers.shell.config.deny[1]: must be a regular expression (RE2)",
		`{"timeout_ms":-1}`:    "invalid workers.shell.config.timeout_ms: must be 0 (the default) to 30000",
		`{"timeout_ms":30001}`: "invalid workers.shell.config.timeout_ms: must be 0 (the default) to 30000",
	} {
		var e *bus.InvalidError
		if _, err := New(Deps{Root: t.TempDir(), Config: json.RawMessage(raw)}); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v", raw, err)
		}
	}
}
