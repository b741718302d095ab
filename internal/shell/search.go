package shell

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/iii-aws/harness/engine/bus"
)

// Bounds of a search.
const (
	defaultHits = 200
	maxHits     = 2000
	// maxVisited is how many files and folders are looked at.
	maxVisited = 200_000
	// maxSearched is how many bytes of files are read, and maxLine how many of
	// a line are searched and shown.
	maxSearched = 256 << 20
	maxLine     = 64 << 10
	maxShownRow = 500
	// searchFor is how long a search takes; its caller gives up at 30 s.
	searchFor = 20 * time.Second
)

// GlobRequest names files by a pattern.
type GlobRequest struct {
	// Pattern is matched with paths below Path: * and ? within a name, ** over
	// folders, {a,b}, [a-z].
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`
	Limit   int    `json:"limit,omitempty"`
}

// Validate names the first wrong field.
func (r GlobRequest) Validate() error {
	switch {
	case r.Pattern == "":
		return bus.Missing("pattern")
	case !doublestar.ValidatePattern(r.Pattern):
		return bus.Invalid("pattern", "a glob: *, ?, **, {a,b}, [a-z]")
	}
	return validLimit(r.Limit)
}

func validLimit(n int) error {
	if n < 0 || n > maxHits {
		return bus.Invalid("limit", "1 to 2000")
	}
	return nil
}

// GlobResponse is the files that match, by path. Truncated: there may be more.
type GlobResponse struct {
	Paths     []string `json:"paths"`
	Truncated bool     `json:"truncated"`
}

// glob finds files by name.
func (s *Shell) glob(ctx context.Context, _ *bus.Call, r GlobRequest) (GlobResponse, error) {
	out := GlobResponse{Paths: []string{}}
	limit := cmp.Or(r.Limit, defaultHits)
	var err error
	out.Truncated, err = s.walk(ctx, r.Path, func(rel, below string) (bool, error) {
		if ok, err := doublestar.Match(r.Pattern, below); err != nil || !ok {
			return true, err
		}
		if len(out.Paths) == limit {
			return false, nil
		}
		out.Paths = append(out.Paths, rel)
		return true, nil
	})
	return out, err
}

// GrepRequest looks for a regular expression in files.
type GrepRequest struct {
	// Pattern is RE2.
	Pattern string `json:"pattern"`
	// Path is a file, or a folder whose files are searched.
	Path string `json:"path,omitempty"`
	// Glob restricts the files, as the pattern of a GlobRequest.
	Glob       string `json:"glob,omitempty"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Limit      int    `json:"limit,omitempty"`
}

// Validate names the first wrong field.
func (r GrepRequest) Validate() error {
	if r.Pattern == "" {
		return bus.Missing("pattern")
	}
	if _, err := r.compile(); err != nil {
		return &bus.InvalidError{Field: "pattern", Allowed: "a regular expression (RE2)", Err: err}
	}
	if r.Glob != "" && !doublestar.ValidatePattern(r.Glob) {
		return bus.Invalid("glob", "a glob: *, ?, **, {a,b}, [a-z]")
	}
	return validLimit(r.Limit)
}

func (r GrepRequest) compile() (*regexp.Regexp, error) {
	if r.IgnoreCase {
		return regexp.Compile("(?i)" + r.Pattern)
	}
	return regexp.Compile(r.Pattern)
}

// GrepResponse is the lines that match, by path and line. Truncated: there may
// be more.
type GrepResponse struct {
	Matches   []GrepMatch `json:"matches"`
	Files     int         `json:"files_searched"`
	Truncated bool        `json:"truncated"`
}

// GrepMatch is one line; a long one is cut.
type GrepMatch struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// grep finds lines in files. Binary files are passed over, and of a line the
// first 64 KiB are searched.
func (s *Shell) grep(ctx context.Context, _ *bus.Call, r GrepRequest) (GrepResponse, error) {
	out := GrepResponse{Matches: []GrepMatch{}}
	re, err := r.compile()
	if err != nil {
		return out, err
	}
	limit, left := cmp.Or(r.Limit, defaultHits), int64(maxSearched)
	out.Truncated, err = s.walk(ctx, r.Path, func(rel, below string) (bool, error) {
		if r.Glob != "" {
			if ok, err := doublestar.Match(r.Glob, below); err != nil || !ok {
				return true, err
			}
		}
		file, info, _, err := s.folder.open(rel)
		if err != nil {
			return true, nil // gone, or not for us: a search finds what can be read
		}
		defer s.shut(rel, file)
		if info.IsDir() {
			return true, nil
		}
		out.Files++
		more, err := search(ctx, &io.LimitedReader{R: file, N: left}, re, func(line int, text string) bool {
			if len(out.Matches) == limit {
				return false
			}
			out.Matches = append(out.Matches, GrepMatch{rel, line, text})
			return true
		})
		if err != nil {
			return false, s.folder.failure(rel, err)
		}
		left -= info.Size()
		return more && left > 0, nil
	})
	return out, err
}

// search gives the lines of a text file that match, until found says that it is
// enough; then it answers false.
func search(ctx context.Context, r io.Reader, re *regexp.Regexp, found func(line int, text string) bool) (bool, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if head, err := in.Peek(8 << 10); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	} else if bytes.IndexByte(head, 0) >= 0 {
		return true, nil
	}
	for line := 1; ; line++ {
		text, long, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if re.Match(text) && !found(line, shownLine(text)) {
			return false, nil
		}
		for long && err == nil {
			_, long, err = in.ReadLine()
		}
		if line%1000 == 0 && ctx.Err() != nil {
			return false, nil
		}
	}
}

func shownLine(b []byte) string {
	text := strings.ToValidUTF8(string(b), "\ufffd")
	if r := []rune(text); len(r) > maxShownRow {
		return string(r[:maxShownRow]) + "…"
	}
	return text
}

// walk visits the files below a path, or the file itself, by name. Links are
// not followed; folders of the harness and .git are passed over. stopped is
// true if it did not come to the end: by visit's answer, by time, or by number.
func (s *Shell) walk(ctx context.Context, path string, visit func(rel, below string) (bool, error)) (stopped bool, err error) {
	if err := s.begin(); err != nil {
		return false, err
	}
	defer s.wg.Done()
	start, info, rel, err := s.folder.open(cmp.Or(path, "."))
	if err != nil {
		return false, err
	}
	s.shut(rel, start)
	if !info.IsDir() {
		more, err := visit(rel, filepath.ToSlash(filepath.Base(rel)))
		return !more, err
	}
	base, err := s.folder.resolve(rel)
	if err != nil {
		return false, err
	}
	begun, visited := s.deps.Clock.Monotonic(), 0
	err = fs.WalkDir(s.folder.root.FS(), filepath.ToSlash(base), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or not ours to read
		}
		visited++
		if visited > maxVisited || ctx.Err() != nil || s.ctx.Err() != nil || s.deps.Clock.Monotonic()-begun > searchFor {
			stopped = true
			return fs.SkipAll
		}
		if d.IsDir() {
			return s.enter(at, base, d)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		below, err := filepath.Rel(base, filepath.FromSlash(at))
		if err != nil {
			return err
		}
		more, err := visit(filepath.FromSlash(at), filepath.ToSlash(below))
		if err == nil && !more {
			stopped = true
			return fs.SkipAll
		}
		return err
	})
	return stopped, err
}

// enter says whether a folder is looked into: only one that is where it seems
// to be.
func (s *Shell) enter(at, base string, d fs.DirEntry) error {
	if at != filepath.ToSlash(base) && d.Name() == ".git" {
		return fs.SkipDir
	}
	local := filepath.FromSlash(at)
	if inner, err := s.folder.resolve(local); err != nil || inner != local {
		return fs.SkipDir
	}
	return nil
}
