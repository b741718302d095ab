package shell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place is where a file is written: a folder that is held open, and a name in
// it. The path may lead somewhere else by the time of the write; the folder
// does not.
type place struct {
	rel  string // as it was named, inside the working folder
	dir  *os.Root
	name string
}

// place finds where a path of a request leads, through links, and makes the
// folders that are missing. Close its dir when done.
func (f *folder) place(path string, makeDirs bool) (*place, error) {
	rel, err := f.target(path)
	if err != nil {
		return nil, err
	}
	for range openTries {
		p, same, err := f.tryPlace(rel, makeDirs)
		if err != nil {
			return nil, err
		}
		if same {
			return p, nil
		}
		if err := p.dir.Close(); err != nil {
			return nil, f.failure(rel, err)
		}
	}
	return nil, &Error{Code: CodeIO, Type: "io", Message: clip(rel) + " changed each time it was looked at", Fix: "try again when nothing moves it"}
}

// target is the path of a request, checked as far as its text goes.
func (f *folder) target(path string) (string, error) {
	rel, err := f.relative(path)
	if err != nil {
		return "", err
	}
	if rel == "." || strings.HasSuffix(path, string(filepath.Separator)) {
		return "", invalid("path names a folder", "name a file")
	}
	return rel, f.here()
}

// tryPlace opens the folder of a file. same is true if the path, looked at once
// more now that the folder is open, leads there and to nothing protected.
func (f *folder) tryPlace(rel string, makeDirs bool) (p *place, same bool, err error) {
	dir, name, err := f.writable(rel)
	if err != nil {
		return nil, false, err
	}
	if makeDirs {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return nil, false, f.failure(rel, err)
		}
	}
	root, err := f.root.OpenRoot(dir)
	if err != nil {
		return nil, false, f.failure(rel, err)
	}
	p = &place{rel: rel, dir: root, name: name}
	opened, err := root.Stat(".")
	if err != nil {
		return nil, false, errors.Join(f.failure(rel, err), root.Close())
	}
	againDir, againName, err := f.writable(rel)
	if err != nil {
		return nil, false, errors.Join(err, root.Close())
	}
	now, err := f.root.Stat(againDir)
	return p, err == nil && againName == name && os.SameFile(now, opened), nil
}

// writable is the folder and the name that a path leads to, both without
// links. What is protected, or for reading only, is refused.
func (f *folder) writable(rel string) (dir, name string, err error) {
	real := filepath.Join(f.path, rel)
	var missing []string
	for {
		resolved, err := filepath.EvalSymlinks(real)
		if err == nil {
			real = resolved
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", f.failure(rel, err)
		}
		if _, err := os.Lstat(real); err == nil {
			return "", "", &Error{Code: CodeKind, Type: "not_a_file", Message: clip(rel) + " is a link that leads to nothing", Fix: "name another file"}
		}
		missing = append([]string{filepath.Base(real)}, missing...)
		real = filepath.Dir(real)
	}
	real = filepath.Join(append([]string{real}, missing...)...)
	inner, err := filepath.Rel(f.path, real)
	if err != nil || !filepath.IsLocal(inner) {
		return "", "", f.outside(rel)
	}
	if f.guard(real) {
		return "", "", &Error{Code: CodeOutside, Type: "protected", Message: clip(rel) + " belongs to the harness and cannot be written"}
	}
	if f.fixed(real) {
		return "", "", &Error{Code: CodeOutside, Type: "protected", Message: clip(rel) + " says what the harness may do: only people change it"}
	}
	return filepath.Dir(inner), filepath.Base(inner), nil
}

// fixed reports whether a resolved path is a file that may be read only.
func (f *folder) fixed(real string) bool {
	info, infoErr := os.Stat(real)
	for _, p := range f.readOnly {
		if real == p {
			return true
		}
		if other, err := os.Stat(p); err == nil && infoErr == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}
