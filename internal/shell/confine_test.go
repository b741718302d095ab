package shell

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPathsInside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("ö/😀 \u200d.txt", "unicode")
	r.write("..dots/..f", "dots")
	r.write("-rf", "dash")
	r.link("a.txt", "link")
	r.link("docs", "folder")
	r.link("../docs/b.txt", "ö/up")
	r.link("link", "chain")
	r.link(filepath.Join(r.root, "docs", "b.txt"), "absolute")
	r.link(filepath.Join(r.outside, "work"), "self")
	for path, want := range map[string]string{
		"a.txt": "alpha", "./a.txt": "alpha", "docs/../a.txt": "alpha", "docs//b.txt": "beta", "docs/./b.txt": "beta", "nowhere/../a.txt": "alpha",
		"ö/😀 \u200d.txt": "unicode", "..dots/..f": "dots", "-rf": "dash",
		"link": "alpha", "folder/b.txt": "beta", "ö/up": "beta", "chain": "alpha", "absolute": "beta", "self/self/a.txt": "alpha",
		filepath.Join(r.root, "a.txt"): "alpha", r.root + "/docs/../a.txt": "alpha", r.root + "//docs///b.txt": "beta",
	} {
		if got, err := r.read(path); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestF34PathsThatLeadOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.link("../secret.txt", "out")
	r.link("..", "up")
	r.link(r.outside, "around")
	r.link("out", "chain")
	r.link("/", "slash")
	r.link("../nothing", "dangling")
	r.link("/nothing/at/all", "dangling-far")
	r.link("loop", "loop")
	r.link(".harness", "data")
	r.link("data/harness.db", "db")
	r.link(filepath.Join(r.data, "harness.db"), "db-far")
	r.link("nowhere", "broken")
	for _, tt := range []struct{ path, code, kind string }{
		{"../secret.txt", CodeOutside, "outside_working_folder"},
		{"..", CodeOutside, "outside_working_folder"},
		{"docs/../../secret.txt", CodeOutside, "outside_working_folder"},
		{"./.././secret.txt", CodeOutside, "outside_working_folder"},
		{r.outside + "/secret.txt", CodeOutside, "outside_working_folder"},
		{r.root + "/../secret.txt", CodeOutside, "outside_working_folder"},
		{r.root + "2/a.txt", CodeOutside, "outside_working_folder"},
		{"/", CodeOutside, "outside_working_folder"},
		{"//etc", CodeOutside, "outside_working_folder"},
		{"/proc/self/environ", CodeOutside, "outside_working_folder"},
		{"out", CodeOutside, "outside_working_folder"},
		{"chain", CodeOutside, "outside_working_folder"},
		{"up/secret.txt", CodeOutside, "outside_working_folder"},
		{"around/secret.txt", CodeOutside, "outside_working_folder"},
		{"slash/etc/passwd", CodeOutside, "outside_working_folder"},
		{"slash/no-such-file", CodeOutside, "outside_working_folder"},
		{"dangling", CodeOutside, "outside_working_folder"},
		{"dangling-far", CodeOutside, "outside_working_folder"},
		{".harness", CodeOutside, "protected"},
		{".harness/harness.db", CodeOutside, "protected"},
		{"docs/../.harness/harness.db", CodeOutside, "protected"},
		{"data/harness.db", CodeOutside, "protected"},
		{"db", CodeOutside, "protected"},
		{"db-far", CodeOutside, "protected"},
		{r.data + "/harness.db", CodeOutside, "protected"},
		{"loop", CodeIO, "io"},
		{"loop/x", CodeIO, "io"},
		{"broken", CodeNotFound, "not_found"},
		{"nothing", CodeNotFound, "not_found"},
		{"docs/..%2f..%2fsecret.txt", CodeNotFound, "not_found"},
		{"a.txt/b", CodeNotFound, "not_found"},
		{"~/secret.txt", CodeNotFound, "not_found"},
		{"docs\\..\\..\\secret.txt", CodeNotFound, "not_found"},
		{"a.txt\x00/../../secret.txt", CodeInvalid, "invalid_request"},
		{strings.Repeat("é", 300), CodeIO, "io"},
		{strings.Repeat("long/", 3000), CodeNotFound, "not_found"},
		{"../" + strings.Repeat("x", 100000), CodeOutside, "outside_working_folder"},
	} {
		_, err := r.read(tt.path)
		wantError(t, "read "+clip(tt.path), err, tt.code, tt.kind)
		_, err = r.ls(tt.path)
		wantError(t, "ls "+clip(tt.path), err, tt.code, tt.kind)
	}
}

// The data folder may lie anywhere, have many names, and be made later.
func TestDataFolderIsProtectedWhereverItIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(r *rig, d *Deps)
		later  func(r *rig)
		path   string
		kind   string
	}{
		{name: "the parent of the working folder", change: func(r *rig, d *Deps) { d.Protected = []string{r.outside} }, path: "a.txt", kind: "protected"},
		{name: "the working folder itself", change: func(r *rig, d *Deps) { d.Protected = []string{r.root} }, path: ".", kind: "protected"},
		{
			name: "a link beside it",
			change: func(r *rig, d *Deps) {
				r.link(r.data, "../elsewhere")
				d.Protected = []string{filepath.Join(r.outside, "elsewhere")}
			},
			path: ".harness/harness.db", kind: "protected",
		},
		{
			name: "a link that is made later",
			change: func(r *rig, d *Deps) {
				d.Protected = []string{filepath.Join(r.outside, "later")}
			},
			later: func(r *rig) { r.link(r.data, "../later") },
			path:  ".harness/harness.db", kind: "protected",
		},
		{
			name:   "a folder that is made later",
			change: func(r *rig, d *Deps) { d.Protected = []string{filepath.Join(r.root, "new")} },
			later:  func(r *rig) { r.write("new/db", secret) },
			path:   "new/db", kind: "protected",
		},
		{name: "one file", change: func(r *rig, d *Deps) { d.Protected = []string{filepath.Join(r.root, "a.txt")} }, path: "docs/../a.txt", kind: "protected"},
		{
			name: "one file under two names", change: func(r *rig, d *Deps) { d.Protected = []string{filepath.Join(r.root, "a.txt")} },
			later: func(r *rig) {
				if err := os.Link(filepath.Join(r.root, "a.txt"), filepath.Join(r.root, "twin")); err != nil {
					r.t.Fatal(err)
				}
			},
			path: "twin", kind: "protected",
		},
		{name: "a relative path", change: func(r *rig, d *Deps) { d.Protected = []string{relativeTo(r.t, r.data)} }, path: ".harness", kind: "protected"},
		{name: "a name that only begins alike", change: func(r *rig, d *Deps) { d.Protected = []string{filepath.Join(r.root, "a")} }, path: "a.txt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.change)
			if tt.later != nil {
				tt.later(r)
			}
			_, err := r.read(tt.path)
			if tt.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, tt.path, err, CodeOutside, tt.kind)
			_, err = r.ls(tt.path)
			wantError(t, tt.path, err, CodeOutside, tt.kind)
			if whole := strings.HasPrefix(tt.name, "the "); whole != strings.Contains(r.log.String(), "no file of it will be read") {
				t.Errorf("log: %s", r.log)
			}
		})
	}
}

func relativeTo(t testing.TB, path string) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

func TestWorkingFolderThatIsALink(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig, d *Deps) {
		r.link("work", "../name")
		d.Root = filepath.Join(r.outside, "name")
	})
	for _, path := range []string{"a.txt", filepath.Join(r.outside, "name", "a.txt"), filepath.Join(r.root, "a.txt")} {
		if got, err := r.read(path); err != nil || got != "alpha" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	_, err := r.read(filepath.Join(r.outside, "name", "..", "secret.txt"))
	wantError(t, "out of the link", err, CodeOutside, "outside_working_folder")
	if out := r.sh("pwd"); out.Stdout != r.root+"\n" {
		t.Errorf("pwd %q", out.Stdout)
	}
}

func TestWorkingFolderThatGoesAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone := func(when string) {
		t.Helper()
		_, err := r.ls(".")
		wantError(t, when+", ls", err, CodeNotFound, "working_folder_gone")
		_, err = r.read("a.txt")
		wantError(t, when+", read", err, CodeNotFound, "working_folder_gone")
		_, err = r.exec(ExecRequest{Command: "true"})
		wantError(t, when+", exec", err, CodeNotFound, "working_folder_gone")
	}
	if err := os.Rename(r.root, r.root+".old"); err != nil {
		t.Fatal(err)
	}
	gone("moved away")
	if err := os.Symlink(r.outside, r.root); err != nil {
		t.Fatal(err)
	}
	gone("replaced by a link")
	if err := errors.Join(os.Remove(r.root), os.Mkdir(r.root, 0o700)); err != nil {
		t.Fatal(err)
	}
	gone("replaced by another")
	if err := errors.Join(os.Remove(r.root), os.Rename(r.root+".old", r.root)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.read("a.txt"); err != nil || got != "alpha" {
		t.Errorf("moved back: %q, %v", got, err)
	}
	if err := os.RemoveAll(r.root); err != nil {
		t.Fatal(err)
	}
	gone("removed")
}

func TestFoldersThatCannotServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{filepath.Join(dir, "none"), file} {
		if _, err := New(Deps{Root: root}); err == nil || !strings.Contains(err.Error(), "shell: working folder "+root) {
			t.Errorf("%s: error %v", root, err)
		}
	}
}

func TestFailuresAreNamed(t *testing.T) {
	t.Parallel()
	f := &folder{}
	for _, tt := range []struct {
		err        error
		code, kind string
	}{
		{fs.ErrNotExist, CodeNotFound, "not_found"},
		{&fs.PathError{Op: "open", Err: fs.ErrPermission}, CodeIO, "permission"},
		{&fs.PathError{Op: "open", Err: fs.ErrClosed}, CodeIO, "io"},
		{&fs.PathError{Op: "open", Err: errors.New("path escapes from parent")}, CodeOutside, "outside_working_folder"},
		{errors.New("anything"), CodeIO, "io"},
	} {
		err := f.failure("x", tt.err)
		wantError(t, tt.err.Error(), err, tt.code, tt.kind)
		if !errors.Is(err, tt.err) {
			t.Errorf("%v: the cause is lost", tt.err)
		}
	}
}

func TestLs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.link("../secret.txt", "z-out")
	if err := errors.Join(os.Remove(filepath.Join(r.data, "harness.db")), os.Remove(r.data)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", ".", r.root} {
		got, err := r.ls(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Entries {
			if e := &got.Entries[i]; e.MTime < 1e12 || e.Type != "file" && e.Size == 0 {
				t.Errorf("entry %+v", *e)
			} else if e.MTime = 0; e.Type != "file" {
				e.Size = 0
			}
		}
		want := LsResponse{Path: ".", Total: 3, Entries: []Entry{{Name: "a.txt", Type: "file", Size: 5}, {Name: "docs", Type: "dir"}, {Name: "z-out", Type: "link"}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", path, diff)
		}
	}
	if got, err := r.ls("docs/../docs/"); err != nil || got.Path != "docs" || got.Total != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(r.root, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ls("empty"); err != nil || got.Entries == nil || got.Total != 0 || got.Truncated {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := r.ls("a.txt")
	wantError(t, "a file", err, CodeKind, "not_a_directory")
	_, err = r.read("docs")
	wantError(t, "a folder", err, CodeKind, "is_a_directory")
	if _, err := r.read(""); err == nil || err.Error() != "missing required field: path" {
		t.Errorf("error %v", err)
	}
}

func TestLsOfALargeFolder(t *testing.T) {
	t.Parallel()
	entries := make([]fs.DirEntry, 0, 7500)
	for i := range 7500 {
		entries = append(entries, named{name: string(rune('a'+i%26)) + strings.Repeat("x", i%7) + "-" + strings.Repeat("0", i)})
	}
	got, total, err := first(&folderOf{entries: entries})
	if err != nil || total != 7500 || len(got) != maxEntries {
		t.Fatalf("%d of %d, %v", len(got), total, err)
	}
	for i, d := range got {
		if i > 0 && got[i-1].Name() >= d.Name() {
			t.Fatalf("%d: not sorted", i)
		}
	}
	if last := got[maxEntries-1].Name(); last[0] > 'g' {
		t.Errorf("the first by name are not given: the last is %.10q", last)
	}
	broken := errors.New("broken")
	if _, _, err := first(&folderOf{entries: entries, fail: broken}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type named struct {
	fs.DirEntry
	name string
}

func (n named) Name() string { return n.name }

// folderOf is a folder that is read in batches.
type folderOf struct {
	fs.ReadDirFile
	entries []fs.DirEntry
	fail    error
}

func (f *folderOf) ReadDir(n int) ([]fs.DirEntry, error) {
	n = min(n, len(f.entries))
	batch := f.entries[:n]
	f.entries = f.entries[n:]
	if n > 0 {
		return batch, nil
	}
	if f.fail != nil {
		return nil, f.fail
	}
	return nil, io.EOF
}

// FuzzPath opens whatever is named: nothing from outside or of the data folder
// may come out.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a.txt", "../secret.txt", ".harness/harness.db", "out", "data/harness.db", "docs/../../secret.txt", "/etc/passwd", "\x00", "self/self/out", "..//..", "ö"} {
		f.Add(s)
	}
	r := newRig(f)
	r.link("../secret.txt", "out")
	r.link(".harness", "data")
	r.link(r.root, "self")
	f.Fuzz(func(t *testing.T, path string) {
		file, info, rel, err := r.shell.folder.open(path)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		defer file.Close()
		if !filepath.IsLocal(rel) {
			t.Fatalf("%q is %q", path, rel)
		}
		if info.IsDir() {
			return
		}
		b := make([]byte, 100)
		n, _ := file.Read(b)
		if text := string(b[:n]); text != "alpha" && text != "beta" {
			t.Fatalf("%q gives %q", path, text)
		}
	})
}
