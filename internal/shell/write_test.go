package shell

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
)

func (r *rig) call(id string, payload any) (WriteResponse, error) {
	return invoke[WriteResponse](r, r.t.Context(), id, payload, nil)
}

func (r *rig) text(path string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.root, path))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func TestWriteMakesAndReplaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tt := range []struct {
		path, text string
		created    bool
	}{{"new/deep/c.txt", "one", true}, {"new/deep/c.txt", "", false}, {"a.txt", "ALPHA", false}, {filepath.Join(r.root, "d.txt"), "x", true}} {
		got, err := r.call("shell::fs::write", map[string]string{"path": tt.path, "content": tt.text})
		if err != nil || got.Created != tt.created || got.Size != len(tt.text) || r.text(got.Path) != tt.text {
			t.Errorf("%s: %+v, %v", tt.path, got, err)
		}
	}
	// The mode stays, and so does the link that leads to the file.
	if err := os.Chmod(filepath.Join(r.root, "a.txt"), 0o750); err != nil {
		t.Fatal(err)
	}
	r.link("a.txt", "link.txt")
	if _, err := r.call("shell::fs::write", map[string]string{"path": "link.txt", "content": "through"}); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(filepath.Join(r.root, "link.txt"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 || r.text("a.txt") != "through" {
		t.Errorf("the link is gone, or a.txt is %q: %v", r.text("a.txt"), err)
	}
	if info, err := os.Stat(filepath.Join(r.root, "a.txt")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(r.root, "*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWriteKeepsInTheFolder(t *testing.T) {
	t.Parallel()
	var rules string
	r := newRig(t, func(r *rig, d *Deps) {
		rules = filepath.Join(r.root, "rules.yaml")
		d.ReadOnly = []string{rules, filepath.Join(r.root, "later.yaml")}
		r.write("rules.yaml", "deny everything")
	})
	r.link("..", "up")
	r.link("../secret.txt", "far.txt")
	r.link(".harness", "data")
	r.link(".harness/harness.db", "db")
	r.link("rules.yaml", "same.yaml")
	r.link("nowhere", "dangling")
	if err := os.Link(rules, filepath.Join(r.root, "hard.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, code, kind string }{
		{"../x", CodeOutside, "outside_working_folder"},
		{"/etc/x", CodeOutside, "outside_working_folder"},
		{"up/x", CodeOutside, "outside_working_folder"},
		{"up/deep/x", CodeOutside, "outside_working_folder"},
		{"far.txt", CodeOutside, "outside_working_folder"},
		{".harness/harness.db", CodeOutside, "protected"},
		{".harness/new/x", CodeOutside, "protected"},
		{"data/x", CodeOutside, "protected"},
		{"db", CodeOutside, "protected"},
		{"docs/../.harness/x", CodeOutside, "protected"},
		{"rules.yaml", CodeOutside, "protected"},
		{"same.yaml", CodeOutside, "protected"},
		{"hard.yaml", CodeOutside, "protected"},
		{"later.yaml", CodeOutside, "protected"},
		{"dangling", CodeKind, "not_a_file"},
		{"docs", CodeKind, "not_a_file"},
		{".", CodeInvalid, "invalid_request"},
		{"docs/", CodeInvalid, "invalid_request"},
		{"a.txt/x", CodeNotFound, "not_found"},
		{"a\x00b", CodeInvalid, "invalid_request"},
	} {
		for id, more := range map[string]map[string]any{
			"shell::fs::write": {"content": "x"}, "shell::fs::edit": {"old_text": "e", "new_text": "x"},
		} {
			more["path"] = tt.path
			_, err := r.call(id, more)
			wantError(t, id+" "+tt.path, err, tt.code, tt.kind)
		}
	}
	if got := r.text(".harness/harness.db") + r.text("../secret.txt") + r.text("rules.yaml"); got != secret+secret+"deny everything" {
		t.Errorf("a file was changed: %q", got)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("f.txt", "one two two\n")
	for _, tt := range []struct {
		name       string
		req        map[string]any
		code, kind string
		want       string
		n          int
	}{
		{"once", map[string]any{"old_text": "one", "new_text": "1"}, "", "", "1 two two\n", 1},
		{"removed", map[string]any{"old_text": "1 ", "new_text": ""}, "", "", "two two\n", 1},
		{"not unique", map[string]any{"old_text": "two", "new_text": "2"}, CodeInvalid, "text_not_unique", "two two\n", 0},
		{"everywhere", map[string]any{"old_text": "two", "new_text": "2", "replace_all": true}, "", "", "2 2\n", 2},
		{"missing", map[string]any{"old_text": "three", "new_text": "3"}, CodeNotFound, "text_not_found", "2 2\n", 0},
		{"too large", map[string]any{"old_text": "2", "new_text": strings.Repeat("x", maxFile/2+1), "replace_all": true}, CodeKind, "too_large", "2 2\n", 0},
		{"no file", map[string]any{"path": "none.txt", "old_text": "a", "new_text": "b"}, CodeNotFound, "not_found", "2 2\n", 0},
	} {
		if tt.req["path"] == nil {
			tt.req["path"] = "f.txt"
		}
		got, err := r.call("shell::fs::edit", tt.req)
		if tt.code != "" {
			wantError(t, tt.name, err, tt.code, tt.kind)
		} else if err != nil || got.Replacements != tt.n || got.Size != len(tt.want) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if r.text("f.txt") != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, r.text("f.txt"), tt.want)
		}
	}
	for _, bad := range []map[string]any{
		{"old_text": "a", "new_text": "b"}, {"path": "f.txt", "new_text": "b"}, {"path": "f.txt", "old_text": "a"},
		{"path": "f.txt", "old_text": "a", "new_text": "a"}, {"path": "f.txt", "old_text": "a", "new_text": strings.Repeat("x", maxFile+1)},
	} {
		if _, err := r.call("shell::fs::edit", bad); bus.Code(err) != "invalid_payload" {
			t.Errorf("edit: %v", err)
		}
	}
	for _, bad := range []map[string]any{{"content": "x"}, {"path": "f.txt"}, {"path": "f.txt", "content": strings.Repeat("x", maxFile+1)}} {
		if _, err := r.call("shell::fs::write", bad); bus.Code(err) != "invalid_payload" {
			t.Errorf("write: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.root, "big"), bytes.Repeat([]byte("x"), maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.call("shell::fs::write", map[string]any{"path": "big", "content": "small"})
	wantError(t, "a file that is too large", err, CodeKind, "too_large")
	if err := os.Chmod(filepath.Join(r.root, "f.txt"), 0o400); err != nil {
		t.Fatal(err)
	}
	_, err = r.call("shell::fs::write", map[string]any{"path": "f.txt", "content": "x"})
	wantError(t, "a file that nobody may write", err, CodeIO, "permission")
}

// TestEditsAtOnceAreAllKept: none is made of a text that another has replaced.
func TestEditsAtOnceAreAllKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("line %d.", i))
	}
	r.write("f.txt", strings.Join(lines, "\n"))
	var wg sync.WaitGroup
	for i := range lines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := r.call("shell::fs::edit", map[string]any{"path": "f.txt", "old_text": fmt.Sprintf("line %d.", i), "new_text": fmt.Sprintf("LINE %d.", i)}); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if got := r.text("f.txt"); strings.Contains(got, "line") {
		t.Errorf("lost edits: %s", got)
	}
}

// TestPlaceThatMoves: what is written goes to the folder that was looked at,
// and never into the harness's data.
func TestPlaceThatMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir, away := filepath.Join(r.root, "docs"), filepath.Join(r.root, "docs-away")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := errors.Join(os.Rename(dir, away), os.Symlink(".harness", dir), os.Remove(dir), os.Rename(away, dir))
			if err != nil {
				// MkdirAll of a write may have come between; clear its way.
				if errors.Join(os.RemoveAll(dir), os.Rename(away, dir)) != nil {
					return
				}
			}
		}
	}()
	for i := range 500 {
		_, _ = r.call("shell::fs::write", map[string]any{"path": "docs/b.txt", "content": fmt.Sprint(i)}) // refused now and then
	}
	close(stop)
	wg.Wait()
	list, err := os.ReadDir(filepath.Join(r.root, ".harness"))
	if err != nil || len(list) != 1 || r.text(".harness/harness.db") != secret {
		t.Errorf("the data folder has %v, %v", list, err)
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("f.txt", "one\ntwo\nthree\n")
	r.write("bin", "a\x00b")
	long := strings.Repeat("new line\n", 4000)
	for _, tt := range []struct {
		name, id string
		args     map[string]any
		want     []string
	}{
		{"edit", "shell::fs::edit", map[string]any{"path": "f.txt", "old_text": "two", "new_text": "2"},
			[]string{"--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"}},
		{"new file in a new folder", "shell::fs::write", map[string]any{"path": "x/y.txt", "content": "hi\n"}, []string{"--- /dev/null\n+++ b/x/y.txt\n@@ -0,0 +1 @@\n+hi\n"}},
		{"no change", "shell::fs::write", map[string]any{"path": "f.txt", "content": "one\ntwo\nthree\n"}, []string{"(no change)"}},
		{"binary", "shell::fs::write", map[string]any{"path": "bin", "content": "text"}, []string{"(binary: 3 bytes, then 4)"}},
		{"long", "shell::fs::write", map[string]any{"path": "f.txt", "content": long}, []string{"+new line\n", "more lines)"}},
		{"large", "shell::fs::write", map[string]any{"path": "f.txt", "content": strings.Repeat("x", maxDiff+1)}, []string{"too large to show"}},
		{"refused", "shell::fs::write", map[string]any{"path": ".harness/harness.db", "content": "x"}, []string{"it would fail", "belongs to the harness"}},
		{"refused folder", "shell::fs::write", map[string]any{"path": ".harness/a/b", "content": "x"}, []string{"it would fail", "belongs to the harness"}},
		{"text not there", "shell::fs::edit", map[string]any{"path": "f.txt", "old_text": "none", "new_text": "x"}, []string{"it would fail", "does not have old_text"}},
		{"bad arguments", "shell::fs::edit", map[string]any{"path": "f.txt"}, []string{"it would fail", "old_text"}},
		{"outside", "shell::fs::write", map[string]any{"path": "../x", "content": "x"}, []string{"it would fail", "outside"}},
	} {
		got, err := invoke[PreviewResponse](r, t.Context(), "shell::fs::preview", map[string]any{"function_id": tt.id, "arguments": tt.args}, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(got.Diff, want) || len(got.Diff) > maxShown+100 || strings.Contains(got.Diff, secret) {
				t.Errorf("%s:\n%s\nwant %q", tt.name, got.Diff, want)
			}
		}
	}
	if _, err := invoke[PreviewResponse](r, t.Context(), "shell::fs::preview", map[string]any{"function_id": "shell::exec"}, nil); bus.Code(err) != "invalid_payload" {
		t.Errorf("another function: %v", err)
	}
	if r.text("f.txt") != "one\ntwo\nthree\n" {
		t.Error("a preview changed the file")
	}
	if _, err := os.Stat(filepath.Join(r.root, "x")); err == nil {
		t.Error("a preview made a folder")
	}
}
