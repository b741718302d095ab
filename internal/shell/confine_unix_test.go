//go:build unix

package shell

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func TestWhatIsNoFileIsNotOpened(t *testing.T) { // not parallel: it changes the folder
	r := newRig(t)
	if err := syscall.Mkfifo(filepath.Join(r.root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.link("pipe", "to-pipe")
	t.Chdir(r.root) // a socket's path is short
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, path := range []string{"pipe", "to-pipe", "socket"} {
		_, err := r.read(path) // must not wait for a writer
		wantError(t, path, err, CodeKind, "not_a_file")
		_, err = r.ls(path)
		wantError(t, path, err, CodeKind, "not_a_file")
	}
	got, err := r.ls(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range got.Entries {
		if (e.Name == "pipe" || e.Name == "socket") && e.Type != "other" {
			t.Errorf("%+v", e)
		}
	}
}

// A path that changes while it is being opened gives a file that it led to, or
// an error: never what is outside or protected, and it never waits.
func TestPathsThatChangeWhileTheyAreOpened(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := syscall.Mkfifo(filepath.Join(r.root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.root, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write("in/harness.db", "alpha")
	for path, targets := range map[string][]string{
		"file":   {"a.txt", ".harness/harness.db", "../secret.txt", "docs", "nothing", "pipe"},
		"folder": {"in", ".harness", "docs"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var turning sync.WaitGroup
		turning.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				next := filepath.Join(r.root, path+".next")
				if err := errors.Join(os.Symlink(targets[i%len(targets)], next), os.Rename(next, filepath.Join(r.root, path))); err != nil {
					t.Error(err)
					return
				}
			}
		})
		opened, refused := 0, 0
		name := map[string]string{"file": "file", "folder": "folder/harness.db"}[path]
		for opened+refused < 1500 {
			file, info, _, err := r.shell.folder.open(name)
			if err != nil {
				refused++
				continue
			}
			opened++
			if info.Mode().IsRegular() {
				b, err := io.ReadAll(file)
				if err != nil || string(b) != "alpha" {
					t.Errorf("%s gave %q, %v", name, b, err)
				}
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}
		cancel()
		turning.Wait()
		if refused == 0 {
			t.Errorf("%s: nothing was ever refused", name)
		}
	}
}

// The second look finds a link that was turned after the first.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.link("a.txt", "link")
	f := r.shell.folder
	opened, info, same, err := f.try("link")
	if err != nil || !same {
		t.Fatalf("%v, %v", same, err)
	}
	defer opened.Close()
	turn := func(target string) {
		t.Helper()
		if err := errors.Join(os.Remove(filepath.Join(r.root, "link")), os.Symlink(target, filepath.Join(r.root, "link"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"docs/b.txt", ".harness/harness.db", "../secret.txt", "nothing"} {
		turn(target)
		if f.leadsTo("link", info) {
			t.Errorf("a link to %s leads to a.txt", target)
		}
	}
	turn("a.txt")
	if !f.leadsTo("link", info) {
		t.Error("a link to a.txt leads elsewhere")
	}
}
