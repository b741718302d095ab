package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// folder is the working folder. os.Root refuses every path and link that
// leaves it; what is protected inside is compared after links are resolved.
type folder struct {
	path      string // resolved, absolute
	root      *os.Root
	protected []string // resolved, absolute
}

func openFolder(path string, protected []string) (*folder, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("shell: working folder %s: %w", path, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("shell: working folder %s: %w", path, err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("shell: working folder %s: %w", path, err)
	}
	f := &folder{path: real, root: root}
	for _, p := range protected {
		a, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("shell: protected folder %s: %w", p, err)
		}
		if r, err := filepath.EvalSymlinks(a); err == nil {
			a = r
		}
		f.protected = append(f.protected, a)
	}
	return f, nil
}

// relative is a path of a request as a path inside the folder.
func (f *folder) relative(path string) (string, error) {
	if path == "" {
		return "", invalid("path is empty", "name a path inside the working folder, such as .")
	}
	if strings.ContainsRune(path, 0) {
		return "", invalid("path holds a NUL byte", "name a path inside the working folder")
	}
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(f.path, filepath.Clean(path))
		if err != nil {
			return "", f.outside(path)
		}
		path = rel
	}
	path = filepath.Clean(path)
	if !filepath.IsLocal(path) {
		return "", f.outside(path)
	}
	return path, nil
}

// guard refuses what resolves into a protected folder.
func (f *folder) guard(rel string) error {
	real, err := filepath.EvalSymlinks(filepath.Join(f.path, rel))
	if err != nil {
		return nil // opening it gives the better error
	}
	for _, p := range f.protected {
		if real == p || strings.HasPrefix(real, p+string(filepath.Separator)) {
			return &Error{Code: CodeOutside, Type: "protected", Message: fmt.Sprintf("%s belongs to the harness and cannot be read", rel)}
		}
	}
	return nil
}

// open opens a path of a request.
func (f *folder) open(path string) (*os.File, fs.FileInfo, string, error) {
	rel, err := f.relative(path)
	if err != nil {
		return nil, nil, "", err
	}
	if err := f.guard(rel); err != nil {
		return nil, nil, "", err
	}
	info, err := f.root.Stat(rel)
	if err != nil {
		return nil, nil, "", f.failure(rel, err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, nil, "", &Error{Code: CodeKind, Type: "not_a_file", Message: rel + " is neither a file nor a folder"}
	}
	file, err := f.root.Open(rel)
	if err != nil {
		return nil, nil, "", f.failure(rel, err)
	}
	if info, err = file.Stat(); err != nil {
		return nil, nil, "", errors.Join(f.failure(rel, err), file.Close())
	}
	return file, info, rel, nil
}

func (f *folder) outside(path string) *Error {
	return &Error{Code: CodeOutside, Type: "outside_working_folder", Message: fmt.Sprintf("%s is outside the working folder", path), Fix: "name a path inside the working folder, such as ."}
}

func (f *folder) failure(rel string, err error) *Error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Code: CodeNotFound, Type: "not_found", Message: rel + " does not exist", Fix: "list the folder with shell::fs::ls", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &Error{Code: CodeIO, Type: "permission", Message: rel + " may not be read", Err: err}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) && strings.Contains(pe.Err.Error(), "escapes") {
		e := f.outside(rel)
		e.Err = err
		return e
	}
	return &Error{Code: CodeIO, Type: "io", Message: rel + " cannot be read", Err: err}
}
