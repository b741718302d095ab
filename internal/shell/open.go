package shell

import (
	"errors"
	"io/fs"
	"os"
)

// openTries is how often a file is looked for that somebody keeps replacing.
const openTries = 5

// open opens the file or folder that a request names. It gives its path inside
// the working folder as it was named.
func (f *folder) open(path string) (*os.File, fs.FileInfo, string, error) {
	rel, err := f.relative(path)
	if err != nil {
		return nil, nil, "", err
	}
	if err := f.here(); err != nil {
		return nil, nil, "", err
	}
	for range openTries {
		file, info, same, err := f.try(rel)
		if err != nil {
			return nil, nil, "", err
		}
		if same {
			return file, info, rel, nil
		}
		if err := file.Close(); err != nil {
			return nil, nil, "", f.failure(rel, err)
		}
	}
	return nil, nil, "", &Error{Code: CodeIO, Type: "io", Message: clip(rel) + " changed each time it was opened", Fix: "try again when nothing writes it"}
}

// try opens what a path leads to. same is true if the path, looked at once more
// now that the file is open, leads to that file and to nothing protected: a
// link that was turned in between gives nothing away.
func (f *folder) try(rel string) (file *os.File, info fs.FileInfo, same bool, err error) {
	inner, err := f.resolve(rel)
	if err != nil {
		return nil, nil, false, err
	}
	if info, err = f.root.Stat(inner); err != nil {
		return nil, nil, false, f.failure(rel, err)
	}
	if err := plain(rel, info); err != nil {
		return nil, nil, false, err
	}
	// A pipe that took the place of the file must not make the open wait.
	if file, err = f.root.OpenFile(inner, os.O_RDONLY|doNotWait, 0); err != nil {
		return nil, nil, false, f.failure(rel, err)
	}
	if info, err = file.Stat(); err != nil {
		return nil, nil, false, errors.Join(f.failure(rel, err), file.Close())
	}
	if err := plain(rel, info); err != nil {
		return nil, nil, false, errors.Join(err, file.Close())
	}
	return file, info, f.leadsTo(rel, info), nil
}

func (f *folder) leadsTo(rel string, opened fs.FileInfo) bool {
	inner, err := f.resolve(rel)
	if err != nil {
		return false
	}
	now, err := f.root.Stat(inner)
	return err == nil && os.SameFile(now, opened)
}

// plain refuses what is neither a file nor a folder.
func plain(rel string, info fs.FileInfo) error {
	if info.Mode().IsRegular() || info.IsDir() {
		return nil
	}
	return &Error{Code: CodeKind, Type: "not_a_file", Message: clip(rel) + " is neither a file nor a folder"}
}
