package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/channel"
)

func TestReadTellsOfTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := os.Chmod(filepath.Join(r.root, "a.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	got, err := r.open("a.txt")
	if err != nil || got.Size != 5 || got.Mode != "-rw-r-----" || got.MTime < 1e12 || got.Content.Direction != channel.Read {
		t.Errorf("%+v, %v", got, err)
	}
	r.write("empty", "")
	if text, err := r.read("empty"); err != nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	r.write("bytes", "\xff\x00\xfe")
	if text, err := r.read("bytes"); err != nil || text != "\xff\x00\xfe" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestLargeFileInBoundedMemory(t *testing.T) { // not parallel: it measures memory
	r := newRig(t)
	const size = 100 << 20
	path := filepath.Join(r.root, "large")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	res, err := r.open("large")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := r.channels.OpenReader(res.Content)
	if err != nil {
		t.Fatal(err)
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var n, most int64
	for i := 0; ; i++ {
		m, err := reader.Read(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n += int64(len(m.Data))
		if i%200 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, int64(now.HeapAlloc)-int64(before.HeapAlloc))
		}
	}
	if n != size || res.Size != size {
		t.Errorf("%d bytes came, %d were announced", n, res.Size)
	}
	if most > 8<<20 {
		t.Errorf("%d bytes of memory were in use", most)
	}
}

func TestReaderThatLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(r.root, "large")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 100<<20)); err != nil {
		t.Fatal(err)
	}
	for _, messages := range []int{0, 1, 20} {
		res, err := r.open("large")
		if err != nil {
			t.Fatal(err)
		}
		reader, err := r.channels.OpenReader(res.Content)
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			if _, err := reader.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		r.shell.wg.Wait() // the pump has ended, though most of the file is left
	}
	if r.log.String() != "" {
		t.Errorf("log: %s", r.log)
	}
}

func TestCloseEndsReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(r.root, "large")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 100<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.open("large"); err != nil { // nobody reads it
		t.Fatal(err)
	}
	if err := r.shell.Close(); err != nil {
		t.Error(err)
	}
	_, err := r.open("large")
	wantError(t, "read after the end", err, CodeStopped, "stopped")
	_, err = r.exec(ExecRequest{Command: "true"})
	wantError(t, "exec after the end", err, CodeStopped, "stopped")
	_, err = r.ls(".")
	wantError(t, "ls after the end", err, CodeNotFound, "working_folder_gone")
}

// failing is a broker that fails, and whose writers do.
type failing struct {
	channel.Broker
	create, open, closing error
}

func (f failing) Create(ctx context.Context, n int) (w, r channel.Ref, err error) {
	if f.create != nil {
		return w, r, f.create
	}
	return f.Broker.Create(ctx, n)
}

func (f failing) OpenWriter(ref channel.Ref) (channel.Writer, error) {
	if f.open != nil {
		return nil, f.open
	}
	w, err := f.Broker.OpenWriter(ref)
	return failingWriter{w, f.closing}, err
}

type failingWriter struct {
	channel.Writer
	err error
}

func (w failingWriter) Close() error { return errors.Join(w.Writer.Close(), w.err) }

func TestChannelsThatFail(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, f := range []failing{{create: broken}, {open: broken}} {
		r := newRig(t, func(r *rig, d *Deps) {
			f.Broker = r.channels
			d.Channels = f
		})
		if _, err := r.open("a.txt"); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		r.shell.wg.Wait()
	}
	r := newRig(t, func(r *rig, d *Deps) { d.Channels = failing{Broker: r.channels, closing: broken} })
	if text, err := r.read("a.txt"); err != nil || text != "alpha" {
		t.Errorf("%q, %v", text, err)
	}
	r.shell.wg.Wait()
	if !strings.Contains(r.log.String(), "not closed") || !strings.Contains(r.log.String(), "a.txt") {
		t.Errorf("log: %s", r.log)
	}
}

func TestFileThatCannotBeReadToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wref, rref, err := r.channels.Create(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.channels.OpenWriter(wref)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := r.channels.OpenReader(rref)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(r.root) // a folder: each read of it fails
	if err != nil {
		t.Fatal(err)
	}
	r.shell.pump("odd", file, w)
	if _, err := reader.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want the end", err)
	}
	if !strings.Contains(r.log.String(), "file not read to its end") {
		t.Errorf("log: %s", r.log)
	}
}
