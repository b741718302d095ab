package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/iii-aws/harness/engine/bus"
)

// maxFile is the largest file that is written or edited, in bytes.
const maxFile = 4 << 20

// WriteRequest gives a file its content.
type WriteRequest struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
}

// Validate names the first wrong field.
func (r WriteRequest) Validate() error {
	switch {
	case r.Path == "":
		return bus.Missing("path")
	case r.Content == nil:
		return bus.Missing("content")
	case len(*r.Content) > maxFile:
		return bus.Invalid("content", "at most 4194304 bytes")
	}
	return nil
}

// WriteResponse is a file as it is now.
type WriteResponse struct {
	Path    string `json:"path"`
	Size    int    `json:"size"`
	Created bool   `json:"created"`
	// Replacements is how often an edit found its text.
	Replacements int `json:"replacements,omitempty"`
}

// write makes a file, or replaces its content whole: a reader sees the old
// content or the new one. Missing folders are made.
func (s *Shell) write(_ context.Context, _ *bus.Call, r WriteRequest) (WriteResponse, error) {
	return s.change(r.Path, true, func(*current) (string, int, error) { return *r.Content, 0, nil })
}

// current is a file before it is changed.
type current struct {
	exists bool
	text   []byte
	info   fs.FileInfo
}

// change gives a file the content that plan makes of the current one.
func (s *Shell) change(path string, makeDirs bool, plan func(*current) (string, int, error)) (out WriteResponse, err error) {
	if err := s.begin(); err != nil {
		return out, err
	}
	defer s.wg.Done()
	s.writing.Lock() // what one call has read, another one does not replace meanwhile
	defer s.writing.Unlock()
	p, err := s.folder.place(path, makeDirs)
	if err != nil {
		return out, err
	}
	defer s.shut(p.rel, p.dir)
	was, err := s.folder.current(p)
	if err != nil {
		return out, err
	}
	text, n, err := plan(was)
	if err != nil {
		return out, err
	}
	if err := s.folder.store(p, was, text); err != nil {
		return out, err
	}
	return WriteResponse{Path: p.rel, Size: len(text), Created: !was.exists, Replacements: n}, nil
}

// current reads the file at a place. One that is too large, or no file, is an
// error.
func (f *folder) current(p *place) (*current, error) {
	info, err := p.dir.Lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return &current{}, nil
	}
	if err != nil {
		return nil, f.failure(p.rel, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Code: CodeKind, Type: "not_a_file", Message: clip(p.rel) + " is not a file", Fix: "name a file"}
	}
	file, err := p.dir.OpenFile(p.name, os.O_RDONLY|doNotWait, 0)
	if err != nil {
		return nil, f.failure(p.rel, err)
	}
	defer file.Close()
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		return nil, &Error{Code: CodeIO, Type: "io", Message: clip(p.rel) + " was replaced meanwhile", Fix: "try again"}
	}
	text, readErr := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err := errors.Join(err, readErr); err != nil {
		return nil, f.failure(p.rel, err)
	}
	if len(text) > maxFile {
		return nil, &Error{Code: CodeKind, Type: "too_large", Message: fmt.Sprintf("%s has more than %d bytes", clip(p.rel), maxFile), Fix: "use shell::exec"}
	}
	return &current{exists: true, text: text, info: opened}, nil
}

// store writes a file beside its place and moves it there. The mode stays.
func (f *folder) store(p *place, was *current, text string) (err error) {
	mode := fs.FileMode(0o644)
	if was.exists {
		mode = was.info.Mode().Perm()
	}
	if mode&0o200 == 0 {
		return f.unwritten(p, fs.ErrPermission) // a rename would not ask
	}
	const tries = 100
	var file *os.File
	temp := ""
	for i := 0; ; i++ {
		temp = fmt.Sprintf(".harness-write-%d.tmp", i)
		if file, err = p.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || i == tries {
			return f.unwritten(p, err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(p.dir.Remove(temp)))
		}
	}()
	_, err = io.WriteString(file, text)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return f.unwritten(p, err)
	}
	now, err := f.current(p)
	if err != nil {
		return err
	}
	if now.exists != was.exists || !bytes.Equal(now.text, was.text) {
		return &Error{Code: CodeIO, Type: "changed", Message: clip(p.rel) + " was changed by somebody else meanwhile", Fix: "read it again"}
	}
	if err := p.dir.Rename(temp, p.name); err != nil {
		return f.unwritten(p, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *folder) unwritten(p *place, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Error{Code: CodeIO, Type: "permission", Message: clip(p.rel) + " may not be written", Err: err}
	}
	return &Error{Code: CodeIO, Type: "io", Message: clip(p.rel) + " cannot be written", Err: err}
}
