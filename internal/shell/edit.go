package shell

import (
	"context"
	"fmt"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
)

// EditRequest replaces a text in a file.
type EditRequest struct {
	Path    string  `json:"path"`
	OldText string  `json:"old_text"`
	NewText *string `json:"new_text"`
	// ReplaceAll allows more than one place.
	ReplaceAll bool `json:"replace_all,omitempty"`
}

// Validate names the first wrong field.
func (r EditRequest) Validate() error {
	switch {
	case r.Path == "":
		return bus.Missing("path")
	case r.OldText == "":
		return bus.Missing("old_text")
	case r.NewText == nil:
		return bus.Missing("new_text")
	case len(*r.NewText) > maxFile:
		return bus.Invalid("new_text", "at most 4194304 bytes")
	case *r.NewText == r.OldText:
		return bus.Invalid("new_text", "another text than old_text")
	}
	return nil
}

// edit replaces a text that the file has once, or every time with replace_all.
func (s *Shell) edit(_ context.Context, _ *bus.Call, r EditRequest) (WriteResponse, error) {
	return s.change(r.Path, false, r.plan)
}

// plan is the edited text, and in how many places it differs.
func (r EditRequest) plan(was *current) (string, int, error) {
	name := clip(r.Path)
	if !was.exists {
		return "", 0, &Error{Code: CodeNotFound, Type: "not_found", Message: name + " does not exist", Fix: "make it with shell::fs::write"}
	}
	text := string(was.text)
	n := strings.Count(text, r.OldText)
	switch {
	case n == 0:
		return "", 0, &Error{Code: CodeNotFound, Type: "text_not_found", Message: name + " does not have old_text", Fix: "read the file and quote it exactly, with its white space"}
	case n > 1 && !r.ReplaceAll:
		return "", 0, &Error{Code: CodeInvalid, Type: "text_not_unique", Message: fmt.Sprintf("%s has old_text %d times", name, n), Fix: "quote more of what is around it, or set replace_all"}
	case len(text)+n*(len(*r.NewText)-len(r.OldText)) > maxFile:
		return "", 0, &Error{Code: CodeKind, Type: "too_large", Message: fmt.Sprintf("%s would have more than %d bytes", name, maxFile), Fix: "use shell::exec"}
	}
	return strings.ReplaceAll(text, r.OldText, *r.NewText), n, nil
}
