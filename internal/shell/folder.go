package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is the working folder. os.Root refuses every path and link that
// leaves it; what is protected inside is compared after links are resolved.
type folder struct {
	path  string // resolved, absolute
	given string // absolute, as it was named
	root  *os.Root
	// protected are absolute, resolved as far as they existed.
	protected []string
	// readOnly are like protected, but may be read.
	readOnly []string
}

func openFolder(path string, protected, readOnly []string) (*folder, error) {
	given, real, err := resolved(path)
	if err != nil {
		return nil, fmt.Errorf("shell: working folder %s: %w", path, err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("shell: working folder %s: %w", path, err)
	}
	f := &folder{path: real, given: given, root: root}
	for to, paths := range map[*[]string][]string{&f.protected: protected, &f.readOnly: readOnly} {
		for _, p := range paths {
			abs, real, err := resolved(p)
			switch {
			case err == nil:
				*to = append(*to, real)
			case abs != "":
				*to = append(*to, later(abs))
			default:
				return nil, errors.Join(fmt.Errorf("shell: protected path %s: %w", p, err), root.Close())
			}
		}
	}
	return f, nil
}

// later is where a path that does not exist will be, as far as that is known.
func later(abs string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}

func resolved(path string) (abs, real string, err error) {
	if abs, err = filepath.Abs(path); err == nil {
		real, err = filepath.EvalSymlinks(abs)
	}
	return abs, real, err
}

// here fails if the working folder is not where it was: what is open then is
// not what commands and people see.
func (f *folder) here() error {
	now, err := os.Stat(f.path)
	if err == nil {
		var opened fs.FileInfo
		if opened, err = f.root.Stat("."); err == nil && os.SameFile(now, opened) {
			return nil
		}
	}
	return &Error{Code: CodeNotFound, Type: "working_folder_gone", Message: "the working folder was removed or replaced", Fix: "restart the harness in a folder that exists", Err: err}
}

// relative is a path of a request as a path inside the folder.
func (f *folder) relative(path string) (string, error) {
	const fix = "name a path inside the working folder, such as ."
	switch {
	case path == "":
		return "", invalid("path is empty", fix)
	case strings.ContainsRune(path, 0):
		return "", invalid("path holds a NUL byte", fix)
	}
	if filepath.IsAbs(path) {
		clean := filepath.Clean(path)
		for _, base := range []string{f.path, f.given} {
			if rel, err := filepath.Rel(base, clean); err == nil && filepath.IsLocal(rel) {
				return rel, nil
			}
		}
		return "", f.outside(clean)
	}
	if clean := filepath.Clean(path); filepath.IsLocal(clean) {
		return clean, nil
	}
	return "", f.outside(path)
}

// resolve is a path without links, inside the folder and not protected.
func (f *folder) resolve(rel string) (string, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(f.path, rel))
	if err != nil {
		// The root knows links that lead out also where nothing is.
		if _, serr := f.root.Stat(rel); serr != nil {
			err = serr
		}
		return "", f.failure(rel, err)
	}
	inner, err := filepath.Rel(f.path, real)
	if err != nil || !filepath.IsLocal(inner) {
		return "", f.outside(rel)
	}
	if f.guard(real) {
		return "", &Error{Code: CodeOutside, Type: "protected", Message: clip(rel) + " belongs to the harness and cannot be read"}
	}
	return inner, nil
}

// guard reports whether a resolved path is in a protected folder. Folders are
// compared by what they are, because a file system may know one by many names.
func (f *folder) guard(real string) bool {
	var folders []fs.FileInfo
	for _, p := range f.protected {
		if real == p || strings.HasPrefix(real, p+string(filepath.Separator)) {
			return true
		}
		if info, err := os.Stat(p); err == nil {
			folders = append(folders, info)
		}
	}
	for {
		if info, err := os.Stat(real); err == nil {
			for _, p := range folders {
				if os.SameFile(info, p) {
					return true
				}
			}
		}
		parent := filepath.Dir(real)
		if parent == real {
			return false
		}
		real = parent
	}
}

func (f *folder) outside(path string) *Error {
	return &Error{Code: CodeOutside, Type: "outside_working_folder", Message: clip(path) + " is outside the working folder", Fix: "name a path inside the working folder, such as ."}
}

// failure says what an error of the file system means.
func (f *folder) failure(rel string, err error) *Error {
	name := clip(rel)
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Code: CodeNotFound, Type: "not_found", Message: name + " does not exist", Fix: "list the folder with shell::fs::ls", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &Error{Code: CodeIO, Type: "permission", Message: name + " may not be read", Err: err}
	case errors.Is(err, syscall.ENOTDIR):
		return &Error{Code: CodeNotFound, Type: "not_found", Message: name + " does not exist: a part of it is a file", Fix: "list the folder with shell::fs::ls", Err: err}
	case errors.As(err, &path) && !errors.As(err, &errno) && !errors.Is(err, fs.ErrClosed):
		// The one error of a root that is not the operating system's: the path
		// leads out. It is not exported.
		e := f.outside(rel)
		e.Err = err
		return e
	}
	return &Error{Code: CodeIO, Type: "io", Message: name + " cannot be read", Err: err}
}
