package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// fileStore keeps immutable files named by an id, fanned out over folders.
type fileStore struct {
	dir    string
	noSync bool
}

// tempPrefix marks files that are being written.
const tempPrefix = "tmp-"

func (s fileStore) path(id string) string {
	return filepath.Join(s.dir, id[:2], id[2:])
}

// create opens a temporary file of the store.
func (s fileStore) create() (*os.File, error) {
	if err := os.MkdirAll(s.dir, folderMode); err != nil {
		return nil, err
	}
	return os.CreateTemp(s.dir, tempPrefix+"*")
}

// adopt makes a temporary file durable under its id. It closes and, on
// failure, removes it.
func (s fileStore) adopt(f *os.File, id string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, removeFile(f.Name()))
		}
	}()
	if !s.noSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	target := s.path(id)
	folder := filepath.Dir(target)
	switch err := os.Mkdir(folder, folderMode); {
	case err == nil:
		if err := syncDir(s.dir, s.noSync); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := os.Rename(f.Name(), target); err != nil {
		return err
	}
	return syncDir(folder, s.noSync)
}

// discard closes and removes a temporary file.
func (s fileStore) discard(f *os.File) error {
	return errors.Join(f.Close(), removeFile(f.Name()))
}

// write stores b durably and gives its checksum.
func (s fileStore) write(id string, b []byte) (sum uint32, err error) {
	f, err := s.create()
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(f, bytes.NewReader(b)); err != nil {
		return 0, errors.Join(err, s.discard(f))
	}
	return crc32.Checksum(b, castagnoli), s.adopt(f, id)
}

// read gives a file whose size and checksum are as they should be. Errors:
// fs.ErrNotExist, errChecksum.
func (s fileStore) read(id string, size int64, sum uint32) ([]byte, error) {
	if len(id) < 3 || strings.ContainsAny(id, `/\.`) {
		return nil, fmt.Errorf("no file id: %q", id)
	}
	b, err := os.ReadFile(s.path(id))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != size || crc32.Checksum(b, castagnoli) != sum {
		return nil, errChecksum
	}
	return b, nil
}

// remove deletes a file; an absent one is no error.
func (s fileStore) remove(id string) error { return removeFile(s.path(id)) }

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeOthers removes every file that keep does not want, and leftovers of
// writes that were cut short.
func (s fileStore) removeOthers(keep func(id string) bool) error {
	folders, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			if strings.HasPrefix(folder.Name(), tempPrefix) {
				err = errors.Join(err, removeFile(filepath.Join(s.dir, folder.Name())))
			}
			continue
		}
		files, readErr := os.ReadDir(filepath.Join(s.dir, folder.Name()))
		err = errors.Join(err, readErr)
		for _, f := range files {
			if !keep(folder.Name() + f.Name()) {
				err = errors.Join(err, removeFile(filepath.Join(s.dir, folder.Name(), f.Name())))
			}
		}
	}
	return err
}

// syncDir makes the names in a folder durable.
func syncDir(dir string, noSync bool) error {
	if noSync {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	// Some file systems cannot sync a folder and need not.
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return errors.Join(err, d.Close())
	}
	return d.Close()
}
