package embedded

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/state"
)

// Open reads a blob from an offset on; an offset behind its end reads nothing.
// Each block is checked before the first of its bytes is given out; a damaged
// one ends the read with a *CorruptError.
func (s blobStore) Open(ctx context.Context, id string, offset int64) (io.ReadCloser, error) {
	if offset < 0 {
		return nil, &state.InvalidKeyError{Field: "offset", Allowed: "0 or more"}
	}
	row, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(s.db.blobs.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		// Removed just now, or lost: the row tells.
		if _, err := s.find(ctx, id); err != nil {
			return nil, err
		}
		return nil, &CorruptError{Path: s.db.blobs.path(id), What: blobWhat([]byte(id)), Err: err}
	}
	if err != nil {
		return nil, &state.StorageError{Op: "blob.open", Err: err}
	}
	offset = min(offset, row.size)
	return &blobReader{f: f, path: f.Name(), id: id, row: row, block: offset / blobBlock, skip: int(offset % blobBlock)}, nil
}

// blobReader reads block by block.
type blobReader struct {
	f     *os.File
	path  string
	id    string
	row   blobRow
	block int64 // the next one to be read
	skip  int   // how many of its bytes are not wanted
	rest  []byte
	buf   []byte
}

var _ blob.Store = blobStore{}

// Read gives checked bytes.
func (r *blobReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		if r.block*blobBlock >= r.row.size {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *blobReader) next() error {
	if r.buf == nil {
		r.buf = make([]byte, blobBlock)
	}
	start := r.block * blobBlock
	b := r.buf[:min(blobBlock, r.row.size-start)]
	_, err := r.f.ReadAt(b, start)
	switch {
	case errors.Is(err, io.EOF), err == nil && crc32.Checksum(b, castagnoli) != r.row.sums[r.block]:
		return &CorruptError{Path: r.path, What: blobWhat([]byte(r.id)), Err: errChecksum}
	case err != nil:
		return &state.StorageError{Op: "blob.read", Err: err}
	}
	r.rest, r.skip = b[r.skip:], 0
	r.block++
	return nil
}

// Close ends the read.
func (r *blobReader) Close() error { return r.f.Close() }
