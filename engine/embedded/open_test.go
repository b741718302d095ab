package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

func TestOpenMakesAPrivateFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "data")
	db := openTest(t, Options{Dir: dir})
	for path, want := range map[string]fs.FileMode{dir: folderMode, db.path(): fileMode, filepath.Join(dir, pidFile): fileMode} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, error %v; want mode %v", path, info.Mode(), err, want)
		}
	}
	closeTest(t, db)
	if _, err := os.Stat(filepath.Join(dir, pidFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want no pid file after the close", err)
	}
}

func TestOpenAgainHasEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, Options{Dir: dir})
	large := `"` + string(bytesOf('x', 300<<10)) + `"`
	setTest(t, db, "s", "small", `1`)
	setTest(t, db, "s", "large", large)
	info, err := db.Blobs().Put(t.Context(), "s", "", strings.NewReader("blob"))
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, Options{Dir: dir})
	wantStored(t, db, "s", "small", `1`)
	wantStored(t, db, "s", "large", large)
	if got := readTest(t, db, info.ID); got != "blob" {
		t.Errorf("got %q, want blob", got)
	}
}

func TestOpenRefusesASecondServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, Options{Dir: dir})
	_, err := Open(t.Context(), Options{Dir: dir})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Dir != dir || !locked.Retryable() {
		t.Fatalf("got error %v, want a *LockedError with the pid %d", err, os.Getpid())
	}
	oneLine(t, err, dir)
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte("nonsense"), fileMode); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), Options{Dir: dir}); !errors.As(err, &locked) || locked.PID != 0 || !strings.Contains(err.Error(), "another process") {
		t.Errorf("got error %v, want a *LockedError without a pid", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := context.AfterFunc(ctx, func() {})
	defer stop()
	cancel()
	if _, err = Open(ctx, Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
	setTest(t, db, "s", "k", `1`)
	closeTest(t, db)
	wantStored(t, openTest(t, Options{Dir: dir}), "s", "k", `1`)
}

// oneLine demands an error that a person can act on.
func oneLine(t *testing.T, err error, names string) {
	t.Helper()
	text := err.Error()
	if strings.Contains(text, "\n") || !strings.Contains(text, names) {
		t.Errorf("got %q, want one line that names %s", text, names)
	}
	var coded interface{ ErrorCode() string }
	if !errors.As(err, &coded) || coded.ErrorCode() != "STORAGE_ERROR" {
		t.Errorf("got %T, want an error with the code STORAGE_ERROR", err)
	}
}

func TestOpenRefusesAFolderItCannotUse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	if err := os.Mkdir(filepath.Join(taken, dataFile), folderMode); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file": file, "below a file": filepath.Join(file, "data"), "the data file is a folder": taken} {
		_, err := Open(t.Context(), Options{Dir: dir})
		var e *FolderError
		if !errors.As(err, &e) || errors.Unwrap(err) == nil {
			t.Errorf("%s: got error %v, want a *FolderError", name, err)
			continue
		}
		oneLine(t, err, dir)
	}
}

func TestOpenRefusesWhatIsNoDataFile(t *testing.T) {
	t.Parallel()
	_, whole := makeFile(t)
	for name, content := range map[string][]byte{
		"text":             []byte(strings.Repeat("this is not a data file\n", 1000)),
		"short text":       []byte("hello\n"),
		"zeros":            make([]byte, 64<<10),
		"half":             whole[:len(whole)/2],
		"two pages":        whole[:2*pageSize],
		"a page and a bit": whole[:5000],
		"both metas":       append(append(make([]byte, 0, len(whole)), bytesOf(7, 2*pageSize)...), whole[2*pageSize:]...),
		"a record":         bytes.ReplaceAll(whole, []byte("canary-record"), []byte("canary-recorD")), // old copies too
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, dataFile)
			if err := os.WriteFile(path, content, fileMode); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), Options{Dir: dir})
			var e *CorruptError
			if !errors.As(err, &e) || e.Path != path || e.Retryable() {
				t.Fatalf("got error %v, want a *CorruptError of %s", err, path)
			}
			oneLine(t, err, path)
			if after, err := os.ReadFile(path); err != nil || string(after) != string(content) {
				t.Errorf("the file was changed (error %v)", err)
			}
			// The lock is free again.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			openTest(t, Options{Dir: dir})
		})
	}
}

func TestOpenTakesAnEmptyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, dataFile), nil, fileMode); err != nil {
		t.Fatal(err)
	}
	setTest(t, openTest(t, Options{Dir: dir}), "s", "k", `1`)
}

// editFile changes the buckets of a closed data file.
func editFile(t *testing.T, dir string, edit func(tx *bbolt.Tx) error) {
	t.Helper()
	b, err := bbolt.Open(filepath.Join(dir, dataFile), fileMode, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Update(edit), b.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesOtherFormats(t *testing.T) {
	t.Parallel()
	dir, _ := makeFile(t)
	editFile(t, dir, func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(formatKey, binary.BigEndian.AppendUint32(nil, formatVersion+1))
	})
	_, err := Open(t.Context(), Options{Dir: dir})
	var f *FormatError
	if !errors.As(err, &f) || f.Found != formatVersion+1 || f.Known != formatVersion {
		t.Fatalf("got error %v, want a *FormatError", err)
	}
	oneLine(t, err, filepath.Join(dir, dataFile))
	editFile(t, dir, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(formatKey) })
	var c *CorruptError
	if _, err = Open(t.Context(), Options{Dir: dir}); !errors.As(err, &c) {
		t.Errorf("no format: got error %v, want a *CorruptError", err)
	}
	other := t.TempDir()
	editFile(t, other, func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	})
	if _, err = Open(t.Context(), Options{Dir: other}); !errors.As(err, &c) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("another program's: got error %v, want a *CorruptError", err)
	}
}

func TestOpenRemovesOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, Options{Dir: dir})
	large := `"` + string(bytesOf('x', 300<<10)) + `"`
	setTest(t, db, "s", "large", large)
	info, err := db.Blobs().Put(t.Context(), "s", "", strings.NewReader("blob"))
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	for _, name := range []string{"values/aa/bbbb", "values/tmp-1", "blobs/aa/bbbb", "blobs/tmp-1"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), fileMode); err != nil {
			t.Fatal(err)
		}
	}
	db = openTest(t, Options{Dir: dir})
	if v, b := files(t, db, valuesDir), files(t, db, blobsDir); len(v) != 1 || len(b) != 1 {
		t.Errorf("got files %v and %v, want one of each", v, b)
	}
	wantStored(t, db, "s", "large", large)
	if got := readTest(t, db, info.ID); got != "blob" {
		t.Errorf("got %q, want blob", got)
	}
}

// TestAFolderThatCannotTakeFiles: large values and blobs fail, all else goes on.
func TestAFolderThatCannotTakeFiles(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	for _, dir := range []string{valuesDir, blobsDir} {
		if err := os.WriteFile(filepath.Join(db.Dir(), dir), nil, fileMode); err != nil {
			t.Fatal(err)
		}
	}
	large := json.RawMessage(`"` + string(bytesOf('x', 300<<10)) + `"`)
	small := json.RawMessage(`"` + string(bytesOf('x', 200<<10)) + `"`)
	setTest(t, db, "s", "k", string(small))
	_, setErr := state.Do(within(t), db.State(), state.Set("s", "k", large))
	grow := state.Update("s", "k", state.Op{Type: "append", Path: json.RawMessage(`""`), Value: small})
	_, updateErr := state.Do(within(t), db.State(), grow)
	_, streamErr := db.Streams().Submit(within(t), stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet, Data: large}).Wait(within(t))
	_, appendErr := db.Streams().SubmitAppend(within(t), stream.Append{Stream: "s", Group: "g", Events: []stream.LogEvent{{ID: "a", Data: large}}}).Wait(within(t))
	_, blobErr := db.Blobs().Put(within(t), "s", "", strings.NewReader("x"))
	for what, err := range map[string]error{"set": setErr, "update": updateErr, "stream set": streamErr, "append": appendErr, "blob": blobErr} {
		var s *state.StorageError
		if !errors.As(err, &s) || !s.Retryable() || s.Ambiguous {
			t.Errorf("%s: got error %v, want a retryable *state.StorageError", what, err)
		}
	}
	wantStored(t, db, "s", "k", string(small))
	setTest(t, db, "s", "other", `1`)
}

// TestRefusedLargeWritesLeaveNoFile is about writes to streams; those to the
// state are in TestReplacedLargeValuesLeaveNoFile.
func TestRefusedLargeWritesLeaveNoFile(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	large := json.RawMessage(`"` + string(bytesOf('x', 300<<10)) + `"`)
	bad := db.State().Submit(t.Context(), []state.Write{state.Set("s", "k", nil).IfVersion(1)})
	set := db.Streams().Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet, Data: large}, bad)
	log := db.Streams().SubmitAppend(t.Context(), stream.Append{Stream: "s", Group: "g", Events: []stream.LogEvent{{ID: "a", Data: large, CopyTo: "c"}}}, bad)
	for _, p := range []commit.Ticket{set, log} {
		if err := commit.Wait(within(t), p); !errors.Is(err, commit.ErrSkipped) {
			t.Errorf("got error %v, want commit.ErrSkipped", err)
		}
	}
	if left := files(t, db, valuesDir); len(left) != 0 {
		t.Errorf("got files %v, want none", left)
	}
	a := stream.Append{Stream: "s", Group: "g", Base: -1, Events: []stream.LogEvent{{ID: "a", Data: large, CopyTo: "c"}}}
	for range 2 {
		if _, err := db.Streams().SubmitAppend(t.Context(), a).Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		if left := files(t, db, valuesDir); len(left) != 2 {
			t.Errorf("got files %v, want one for the event and one for its copy", left)
		}
	}
}
