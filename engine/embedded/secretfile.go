package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/secret"
)

// maxSecret bounds a secret in bytes, as in Secrets Manager.
const maxSecret = 64 << 10

// SecretFile implements secret.Store on one JSON file: an object with a member
// per secret.
//
// The file has mode 0600; it is replaced as a whole and synced before a write
// returns. Writers, also those of other processes, take turns. A file that a
// person has edited is read again. One that others may read gives a warning in
// the log and gets its mode back with the next write.
type SecretFile struct {
	path   string
	logger *slog.Logger

	mu      sync.Mutex
	secrets map[string]json.RawMessage
	read    fileMark
}

// fileMark tells whether a file is still the one that was read.
type fileMark struct {
	exists bool
	size   int64
	mtime  time.Time
	mode   fs.FileMode
	file   fs.FileInfo
}

func (m fileMark) same(o fileMark) bool {
	return m.exists == o.exists && m.size == o.size && m.mtime.Equal(o.mtime) && m.mode == o.mode &&
		(!m.exists || os.SameFile(m.file, o.file))
}

// SecretOption changes a SecretFile.
type SecretOption func(*SecretFile)

// WithSecretLogger logs warnings; without it they are dropped.
func WithSecretLogger(l *slog.Logger) SecretOption { return func(s *SecretFile) { s.logger = l } }

// NewSecretFile is the store in the file at path, which need not exist yet;
// nothing is read or made before the first use.
func NewSecretFile(path string, opts ...SecretOption) *SecretFile {
	s := &SecretFile{path: path, logger: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Get reads a secret.
func (s *SecretFile) Get(ctx context.Context, name string) (json.RawMessage, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return nil, false, err
	}
	v, ok := s.secrets[name]
	return bytes.Clone(v), ok, nil
}

// Names is the names of all secrets.
func (s *SecretFile) Names(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return nil, err
	}
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(s.secrets)))), nil
}

// Set stores a secret.
func (s *SecretFile) Set(ctx context.Context, name string, value json.RawMessage) error {
	if err := checkName("name", name, maxScope); err != nil {
		return err
	}
	var text bytes.Buffer
	if len(value) > maxSecret || json.Compact(&text, value) != nil {
		return s.failed("set", fmt.Errorf("value of %q: must be JSON text of at most %d bytes", name, maxSecret))
	}
	return s.change(ctx, func(secrets map[string]json.RawMessage) bool {
		secrets[name] = text.Bytes()
		return true
	})
}

// Delete removes a secret.
func (s *SecretFile) Delete(ctx context.Context, name string) error {
	return s.change(ctx, func(secrets map[string]json.RawMessage) bool {
		_, ok := secrets[name]
		delete(secrets, name)
		return ok
	})
}

// change reads the file, changes its content and replaces it, alone.
func (s *SecretFile) change(ctx context.Context, edit func(map[string]json.RawMessage) bool) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(s.path), folderMode); err != nil {
		return s.failed("make folder of", err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := s.load(); err != nil {
		return err
	}
	next := maps.Clone(s.secrets)
	if next == nil {
		next = make(map[string]json.RawMessage)
	}
	if !edit(next) {
		return nil
	}
	if err := s.write(next); err != nil {
		return s.failed("write", err)
	}
	// The next use reads what is there, whoever wrote it.
	s.read = fileMark{exists: true, size: -1}
	return nil
}

// lock takes the lock that writers of all processes share.
func (s *SecretFile) lock(ctx context.Context) (unlock func() error, err error) {
	f, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, s.failed("lock", err)
	}
	for {
		ok, err := tryLock(f)
		if err != nil {
			return nil, s.failed("lock", errors.Join(err, f.Close()))
		}
		if ok {
			return f.Close, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// load reads the file if it is not the one that was read before.
func (s *SecretFile) load() error {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.secrets, s.read = nil, fileMark{}
		return nil
	}
	if err != nil {
		return s.failed("read", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return s.failed("read", err)
	}
	mark := fileMark{exists: true, size: info.Size(), mtime: info.ModTime(), mode: info.Mode(), file: info}
	if s.secrets != nil && s.read.same(mark) {
		return nil
	}
	var secrets map[string]json.RawMessage
	if err := json.NewDecoder(f).Decode(&secrets); err != nil || secrets == nil {
		// The text of the cause may quote the file.
		return s.failed("read", errors.New("must be a JSON object with a member per secret"))
	}
	for name, value := range secrets {
		var text bytes.Buffer
		if err := json.Compact(&text, value); err != nil {
			return s.failed("read", err)
		}
		secrets[name] = text.Bytes()
	}
	if mark.mode.Perm()&0o077 != 0 {
		s.logger.Warn("the file of secrets can be read by others; make it private with chmod 600", "path", s.path, "mode", mark.mode.Perm().String())
	}
	s.secrets, s.read = secrets, mark
	return nil
}

// write replaces the file.
func (s *SecretFile) write(secrets map[string]json.RawMessage) (err error) {
	target := s.path
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real
	}
	text, err := json.MarshalIndent(secrets, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*") // has mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeFile(f.Name()))
		}
	}()
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), target); err != nil {
		return err
	}
	return syncDir(filepath.Dir(target), false)
}

func (s *SecretFile) failed(op string, err error) error {
	return &secret.StoreError{Path: s.path, Op: op, Err: err}
}

var _ secret.Store = (*SecretFile)(nil)
