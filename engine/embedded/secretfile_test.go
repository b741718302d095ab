package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/secret"
)

func secretPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "home", "credentials.json")
}

func setSecret(t *testing.T, s *SecretFile, name, value string) {
	t.Helper()
	if err := s.Set(t.Context(), name, json.RawMessage(value)); err != nil {
		t.Fatal(err)
	}
}

func wantSecret(t *testing.T, s *SecretFile, name, want string) {
	t.Helper()
	if got, ok, err := s.Get(t.Context(), name); err != nil || !ok || string(got) != want {
		t.Errorf("%s: got %s, ok %v, error %v; want %s", name, got, ok, err, want)
	}
}

func TestSecretFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := secretPath(t)
	s := NewSecretFile(path)
	if _, err := s.Names(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want that a read makes no file", err)
	}
	setSecret(t, s, "a", `1`)
	for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, error %v; want mode %v", p, info, err, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".credentials*"))
	if err != nil || len(left) != 0 {
		t.Errorf("got leftovers %v, error %v", left, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "{\n  \"a\": 1\n}\n" {
		t.Errorf("got %q, error %v; want text that a person can edit", text, err)
	}
}

func TestSecretFileWithALooseMode(t *testing.T) {
	t.Parallel()
	path := secretPath(t)
	log := &testLog{}
	s := NewSecretFile(path, WithSecretLogger(log.logger()))
	setSecret(t, s, "a", `"sk-canary"`)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wantSecret(t, s, "a", `"sk-canary"`)
	}
	if n := strings.Count(log.String(), "chmod 600"); n != 1 || strings.Contains(log.String(), "canary") {
		t.Errorf("got %d warnings, want one and no secret: %s", n, log)
	}
	setSecret(t, s, "b", `2`)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, error %v; want mode 0600 after a write", info, err)
	}
}

func TestSecretFileEditedByAPerson(t *testing.T) {
	t.Parallel()
	path := secretPath(t)
	s := NewSecretFile(path)
	setSecret(t, s, "a", `1`)
	wantSecret(t, s, "a", `1`)
	if err := os.WriteFile(path, []byte(` {"a": {"key" : "new"}, "b":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantSecret(t, s, "a", `{"key":"new"}`)
	setSecret(t, s, "c", `3`)
	wantSecret(t, s, "b", `2`)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if names, err := s.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("got %v, error %v; want none after the file was removed", names, err)
	}
}

func TestSecretFileThatIsNoJSON(t *testing.T) {
	t.Parallel()
	for _, content := range []string{`sk-canary`, `{"a":"sk-canary"`, `null`, `["sk-canary"]`, ``} {
		path := filepath.Join(t.TempDir(), "credentials.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := NewSecretFile(path)
		_, _, getErr := s.Get(t.Context(), "a")
		_, namesErr := s.Names(t.Context())
		for what, err := range map[string]error{
			"get": getErr, "names": namesErr, "set": s.Set(t.Context(), "a", json.RawMessage(`1`)), "delete": s.Delete(t.Context(), "a"),
		} {
			var e *secret.StoreError
			if !errors.As(err, &e) || e.Path != path || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s of %q: got error %v, want a *secret.StoreError that shows no content", what, content, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != content {
			t.Errorf("the file was changed to %q (error %v)", after, err)
		}
	}
}

func TestSecretFileBehindALink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
	setSecret(t, NewSecretFile(real), "a", `1`)
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	setSecret(t, NewSecretFile(link), "b", `2`)
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("got %v, error %v; want the link to stay", info, err)
	}
	wantSecret(t, NewSecretFile(real), "b", `2`)
}

func TestSecretFileOfSeveralWriters(t *testing.T) {
	t.Parallel()
	path := secretPath(t)
	var writers sync.WaitGroup
	for w := range 8 {
		s := NewSecretFile(path) // as another process would have it
		writers.Go(func() {
			for i := range 5 {
				if err := s.Set(t.Context(), fmt.Sprint(w, ".", i), json.RawMessage(`1`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if names, err := NewSecretFile(path).Names(t.Context()); err != nil || len(names) != 40 {
		t.Errorf("got %d names, error %v; want 40", len(names), err)
	}
}

func TestSecretFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, path := range map[string]string{"below a file": filepath.Join(file, "x.json"), "a folder": folder} {
		s := NewSecretFile(path)
		var e *secret.StoreError
		if err := s.Set(t.Context(), "a", json.RawMessage(`1`)); !errors.As(err, &e) || e.ErrorCode() != "STORAGE_ERROR" {
			t.Errorf("%s: set: got error %v, want a *secret.StoreError", name, err)
		}
		if _, _, err := s.Get(t.Context(), "a"); !errors.As(err, &e) {
			t.Errorf("%s: get: got error %v, want a *secret.StoreError", name, err)
		}
	}
	if err := NewSecretFile(secretPath(t)).Set(t.Context(), "a", bytesOf('1', maxSecret+1)); err == nil {
		t.Error("a value above the limit: got no error")
	}
}
