package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
)

const secret = "sk-CANARY-7f3a"

// rig is a shell on a working folder of its own, with a data folder inside it
// and secrets in and around it.
type rig struct {
	t        testing.TB
	outside  string // the folder around the working folder
	root     string
	data     string
	shell    *Shell
	channels *channel.Local
	clock    *clock.Fake
	blobs    *memoryBlobs
	log      *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig makes a shell; change may alter what it is made of.
func newRig(t testing.TB, change ...func(*rig, *Deps)) *rig {
	t.Helper()
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := clock.NewFake(time.UnixMilli(1780000000000))
	r := &rig{
		t: t, outside: outside, root: filepath.Join(outside, "work"), data: filepath.Join(outside, "work", ".harness"),
		channels: channel.NewLocal(c, clock.Random()), clock: c, blobs: &memoryBlobs{}, log: &lockedBuffer{},
	}
	r.write("../secret.txt", secret)
	r.write(".harness/harness.db", secret)
	r.write("a.txt", "alpha")
	r.write("docs/b.txt", "beta")
	d := Deps{
		Root: r.root, Protected: []string{r.data}, Channels: r.channels, Blobs: r.blobs, Clock: c, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Environ: func() []string { return []string{"PATH=" + os.Getenv("PATH")} },
	}
	for _, f := range change {
		f(r, &d)
	}
	if r.shell, err = New(d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.shell.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// write makes a file, given by its path in the working folder.
func (r *rig) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) link(target, path string) {
	r.t.Helper()
	if err := os.Symlink(target, filepath.Join(r.root, path)); err != nil {
		r.t.Fatal(err)
	}
}

func invoke[T any](r *rig, ctx context.Context, id string, payload any, reply *bus.Reply) (out T, err error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return out, err
	}
	raw, err := r.shell.Endpoints()[id].Handle(ctx, &bus.Call{Data: data, Reply: reply})
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

func (r *rig) ls(path string) (LsResponse, error) {
	return invoke[LsResponse](r, r.t.Context(), "shell::fs::ls", map[string]string{"path": path}, nil)
}

func (r *rig) open(path string) (ReadResponse, error) {
	return invoke[ReadResponse](r, r.t.Context(), "shell::fs::read", map[string]string{"path": path}, nil)
}

// read gives the whole text of a file.
func (r *rig) read(path string) (string, error) {
	res, err := r.open(path)
	if err != nil {
		return "", err
	}
	reader, err := r.channels.OpenReader(res.Content)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for {
		m, err := reader.Read(r.t.Context())
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		if !m.Binary {
			return "", errors.New("bytes came as text")
		}
		b.Write(m.Data)
	}
}

func (r *rig) exec(payload any) (ExecResponse, error) {
	return invoke[ExecResponse](r, r.t.Context(), "shell::exec", payload, &bus.Reply{SessionID: "s1"})
}

// sh runs a line of sh that must start.
func (r *rig) sh(line string) ExecResponse {
	r.t.Helper()
	out, err := r.exec(ExecRequest{Command: line})
	if err != nil {
		r.t.Fatalf("%s: %v", line, err)
	}
	return out
}

// wantError checks the code and type of an error, and that it is JSON for a
// model.
func wantError(t *testing.T, what string, err error, code, kind string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: error %v, want an *Error", what, err)
		return
	}
	if e.Code != code || e.Type != kind || e.Retryable() {
		t.Errorf("%s: error %s %s, want %s %s", what, e.Code, e.Type, code, kind)
	}
	var told map[string]string
	if json.Unmarshal([]byte(err.Error()), &told) != nil || told["code"] != code || told["message"] == "" {
		t.Errorf("%s: text %q", what, err)
	}
	if len(err.Error()) > 1500 || strings.Contains(err.Error(), secret) {
		t.Errorf("%s: text of %d bytes: %.200s", what, len(err.Error()), err)
	}
}

// memoryBlobs is a blob store in memory.
type memoryBlobs struct {
	blob.Store
	fail error

	mu   sync.Mutex
	kept map[string][]byte
}

func (m *memoryBlobs) Put(_ context.Context, session, mime string, r io.Reader) (blob.Info, error) {
	if m.fail != nil {
		return blob.Info{}, m.fail
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return blob.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	id := fmt.Sprintf("%s/%d", session, len(m.kept))
	m.kept[id] = b
	return blob.Info{ID: id, Size: int64(len(b)), MIME: mime}, nil
}

func (m *memoryBlobs) get(ref *blob.Ref) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[ref.Blob.ID]
}
