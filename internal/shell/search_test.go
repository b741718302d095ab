package shell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
)

func (r *rig) glob(req map[string]any) (GlobResponse, error) {
	return invoke[GlobResponse](r, r.t.Context(), "shell::fs::glob", req, nil)
}

func (r *rig) grep(req map[string]any) (GrepResponse, error) {
	return invoke[GrepResponse](r, r.t.Context(), "shell::fs::grep", req, nil)
}

// searchRig has files of many kinds, and links and folders that must not be
// looked into.
func searchRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.write("docs/deep/c.go", "package deep\n// alpha again\n")
	r.write(".git/config", "alpha")
	r.write("docs/.git/HEAD", "alpha")
	r.write("bin", "alpha\x00")
	r.write("long.txt", "short\n"+strings.Repeat("x", maxLine)+"tail\nend alpha "+strings.Repeat("é", maxShownRow)+"\n")
	r.link("../secret.txt", "far.txt")
	r.link("..", "up")
	r.link(".harness", "data")
	return r
}

func TestGlob(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	for _, tt := range []struct {
		req  map[string]any
		want []string
		more bool
	}{
		{map[string]any{"pattern": "**"}, []string{"a.txt", "bin", "docs/b.txt", "docs/deep/c.go", "long.txt"}, false},
		{map[string]any{"pattern": "*.txt"}, []string{"a.txt", "long.txt"}, false},
		{map[string]any{"pattern": "**/*.{go,txt}"}, []string{"a.txt", "docs/b.txt", "docs/deep/c.go", "long.txt"}, false},
		{map[string]any{"pattern": "*.txt", "path": "docs"}, []string{"docs/b.txt"}, false},
		{map[string]any{"pattern": "a.txt", "path": "a.txt"}, []string{"a.txt"}, false},
		{map[string]any{"pattern": "**", "limit": 2}, []string{"a.txt", "bin"}, true},
		{map[string]any{"pattern": "**/*.db"}, []string{}, false},
	} {
		got, err := r.glob(tt.req)
		if err != nil {
			t.Errorf("%v: %v", tt.req, err)
		}
		if diff := cmp.Diff(GlobResponse{Paths: tt.want, Truncated: tt.more}, got); diff != "" {
			t.Errorf("%v:\n%s", tt.req, diff)
		}
	}
	for path, code := range map[string]string{"up": CodeOutside, ".harness": CodeOutside, "data": CodeOutside, "none": CodeNotFound} {
		if _, err := r.glob(map[string]any{"pattern": "**", "path": path}); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
}

func TestGrep(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	end := "end alpha " + strings.Repeat("é", maxShownRow-10) + "…"
	for _, tt := range []struct {
		req   map[string]any
		want  []GrepMatch
		files int
		more  bool
	}{
		{map[string]any{"pattern": "alpha"}, []GrepMatch{{"a.txt", 1, "alpha"}, {"docs/deep/c.go", 2, "// alpha again"}, {"long.txt", 3, end}}, 5, false},
		{map[string]any{"pattern": "^ALPHA$", "ignore_case": true}, []GrepMatch{{"a.txt", 1, "alpha"}}, 5, false},
		{map[string]any{"pattern": "alpha", "glob": "**/*.go"}, []GrepMatch{{"docs/deep/c.go", 2, "// alpha again"}}, 1, false},
		{map[string]any{"pattern": "alpha", "path": "docs"}, []GrepMatch{{"docs/deep/c.go", 2, "// alpha again"}}, 2, false},
		{map[string]any{"pattern": "alpha", "path": "a.txt"}, []GrepMatch{{"a.txt", 1, "alpha"}}, 1, false},
		{map[string]any{"pattern": "alpha", "limit": 1}, []GrepMatch{{"a.txt", 1, "alpha"}}, 4, true},
		{map[string]any{"pattern": "tail"}, []GrepMatch{}, 5, false}, // beyond what is searched of a line
		{map[string]any{"pattern": secret}, []GrepMatch{}, 5, false},
	} {
		got, err := r.grep(tt.req)
		if err != nil {
			t.Errorf("%v: %v", tt.req, err)
		}
		if diff := cmp.Diff(GrepResponse{Matches: tt.want, Files: tt.files, Truncated: tt.more}, got); diff != "" {
			t.Errorf("%v:\n%s", tt.req, diff)
		}
	}
}

func TestSearchesRefuse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, req := range []map[string]any{{}, {"pattern": "["}, {"pattern": "a", "limit": -1}, {"pattern": "a", "limit": maxHits + 1}} {
		if _, err := r.glob(req); bus.Code(err) != "invalid_payload" {
			t.Errorf("glob %v: %v", req, err)
		}
		if _, err := r.grep(req); bus.Code(err) != "invalid_payload" {
			t.Errorf("grep %v: %v", req, err)
		}
	}
	if _, err := r.grep(map[string]any{"pattern": "a", "glob": "["}); bus.Code(err) != "invalid_payload" {
		t.Errorf("glob of a grep: %v", err)
	}
}

// TestSearchEndsInTime: when its caller gives up, and by itself.
func TestSearchEndsInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := invoke[GlobResponse](r, gone, "shell::fs::glob", map[string]any{"pattern": "**"}, nil)
	if err != nil || !got.Truncated || len(got.Paths) != 0 {
		t.Errorf("after the caller: %+v, %v", got, err)
	}
	n := 0
	stopped, err := r.shell.walk(t.Context(), "", func(string, string) (bool, error) {
		n++
		r.clock.Advance(searchFor + time.Second)
		return true, nil
	})
	if err != nil || !stopped || n != 1 {
		t.Errorf("stopped %v after %d files, %v", stopped, n, err)
	}
}

func TestUnreadableFilesArePassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 3 {
		r.write(fmt.Sprintf("x/%d.txt", i), "alpha")
	}
	got, err := r.grep(map[string]any{"pattern": "alpha", "path": "x"})
	if err != nil || len(got.Matches) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	// One goes while the folder is searched.
	seen := 0
	_, err = r.shell.walk(t.Context(), "x", func(rel, _ string) (bool, error) {
		seen++
		return true, os.Remove(filepath.Join(r.root, rel))
	})
	if err != nil || seen != 3 {
		t.Errorf("%d files, %v", seen, err)
	}
}
