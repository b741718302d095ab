package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/iii-aws/harness/engine/bus"
)

// maxDiff is the largest file, before or after, that a diff is made of, and
// maxShown the longest diff, both in bytes.
const (
	maxDiff  = 1 << 20
	maxShown = 16 << 10
)

// PreviewRequest is a call that has not been made.
type PreviewRequest struct {
	FunctionID string          `json:"function_id"`
	Arguments  json.RawMessage `json:"arguments"`
}

// PreviewResponse shows what the call would do.
type PreviewResponse struct {
	Diff string `json:"diff"`
}

// preview shows what a write or an edit would change now, as a unified diff. A
// call that would be refused has the refusal in its place.
func (s *Shell) preview(_ context.Context, _ *bus.Call, r PreviewRequest) (PreviewResponse, error) {
	var path string
	var plan func(*current) (string, int, error)
	var err error
	switch r.FunctionID {
	case "shell::fs::write":
		var w WriteRequest
		err = bus.Decode(r.Arguments, &w)
		path, plan = w.Path, func(*current) (string, int, error) { return *w.Content, 0, nil }
	case "shell::fs::edit":
		var e EditRequest
		err = bus.Decode(r.Arguments, &e)
		path, plan = e.Path, e.plan
	default:
		return PreviewResponse{}, bus.Invalid("function_id", "shell::fs::write or shell::fs::edit")
	}
	if err == nil {
		var diff string
		if diff, err = s.diff(path, plan); err == nil {
			return PreviewResponse{diff}, nil
		}
	}
	var known *Error
	if errors.As(err, &known) {
		return PreviewResponse{"(it would fail: " + known.Message + ")"}, nil
	}
	return PreviewResponse{"(it would fail: " + err.Error() + ")"}, nil
}

func (s *Shell) diff(path string, plan func(*current) (string, int, error)) (string, error) {
	if err := s.begin(); err != nil {
		return "", err
	}
	defer s.wg.Done()
	rel, err := s.folder.target(path)
	if err != nil {
		return "", err
	}
	if _, _, err := s.folder.writable(rel); err != nil {
		return "", err
	}
	was := &current{}
	p, err := s.folder.place(path, false)
	var known *Error
	switch {
	case err == nil:
		defer s.shut(rel, p.dir)
		if was, err = s.folder.current(p); err != nil {
			return "", err
		}
	case !errors.As(err, &known) || known.Code != CodeNotFound: // its folder would be made
		return "", err
	}
	text, _, err := plan(was)
	if err != nil {
		return "", err
	}
	return unified(rel, was, text), nil
}

// unified is a diff for a person.
func unified(name string, was *current, text string) string {
	from, to := "a/"+name, "b/"+name
	if !was.exists {
		from = "/dev/null"
	}
	switch {
	case was.exists && string(was.text) == text:
		return "(no change)"
	case !printable(was.text) || !printable([]byte(text)):
		return fmt.Sprintf("--- %s\n+++ %s\n(binary: %d bytes, then %d)", from, to, len(was.text), len(text))
	case len(was.text) > maxDiff || len(text) > maxDiff:
		return fmt.Sprintf("--- %s\n+++ %s\n(too large to show: %d bytes, then %d)", from, to, len(was.text), len(text))
	}
	diff := udiff.Unified(from, to, string(was.text), text)
	if len(diff) <= maxShown {
		return diff
	}
	cut := strings.LastIndexByte(diff[:maxShown], '\n') + 1
	return diff[:cut] + fmt.Sprintf("(%d more lines)", strings.Count(diff[cut:], "\n"))
}

func printable(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }
