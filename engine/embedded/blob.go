package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/fnv"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/state"
)

// blobBlock is how many bytes of a blob share one checksum.
const blobBlock = 64 << 10

// blobIDBytes is how long an id is before it is text.
const blobIDBytes = 20

// maxMIME bounds the MIME type in bytes.
const maxMIME = 256

// blobStore implements blob.Store.
type blobStore struct{ db *DB }

// Blobs is the port for blobs.
func (db *DB) Blobs() blob.Store { return blobStore{db} }

// Put stores a blob.
func (s blobStore) Put(ctx context.Context, session, mime string, r io.Reader) (blob.Info, error) {
	return s.put(ctx, "", session, mime, r)
}

// PutAs stores a blob under a given id.
func (s blobStore) PutAs(ctx context.Context, id, session, mime string, r io.Reader) (blob.Info, error) {
	if b, err := hex.DecodeString(id); err != nil || len(b) != blobIDBytes || strings.ToLower(id) != id {
		return blob.Info{}, &state.InvalidKeyError{Field: "id", Allowed: fmt.Sprintf("the lower-case hex text of %d bytes", blobIDBytes)}
	}
	return s.put(ctx, id, session, mime, r)
}

// put stores a blob under an id; under one of its content if that is empty.
func (s blobStore) put(ctx context.Context, id, session, mime string, r io.Reader) (blob.Info, error) {
	if err := checkName("session", session, maxScope); err != nil {
		return blob.Info{}, err
	}
	if len(mime) > maxMIME {
		return blob.Info{}, &state.InvalidKeyError{Field: "mime", Allowed: fmt.Sprintf("at most %d bytes", maxMIME)}
	}
	f, err := s.db.blobs.create()
	if err != nil {
		return blob.Info{}, &state.StorageError{Op: "blob.put", Retry: true, Err: err}
	}
	row, digest, err := copyBlob(ctx, f, r)
	if err != nil {
		return blob.Info{}, errors.Join(err, s.db.blobs.discard(f))
	}
	row.session, row.mime = session, mime
	if id == "" {
		return s.db.putBlob(ctx, f, blobID(session, digest), row, false)
	}
	return s.db.putBlob(ctx, f, id, row, true)
}

// blobID is derived from session and content.
func blobID(session string, content []byte) string {
	h := sha256.New()
	_, _ = io.WriteString(h, session) // a hash never fails
	_, _ = h.Write([]byte{separator})
	_, _ = h.Write(content)
	return hex.EncodeToString(h.Sum(nil)[:blobIDBytes])
}

// copyBlob copies r and works out what is to be known of it.
func copyBlob(ctx context.Context, f *os.File, r io.Reader) (blobRow, []byte, error) {
	sums := &blockSums{}
	digest := sha256.New()
	in := &contextReader{ctx: ctx, r: io.LimitReader(r, blob.MaxSize+1)}
	n, err := io.Copy(io.MultiWriter(f, sums, digest), in)
	switch {
	case err != nil && in.failed:
		return blobRow{}, nil, fmt.Errorf("blob: read content: %w", err)
	case err != nil:
		return blobRow{}, nil, &state.StorageError{Op: "blob.put", Retry: true, Err: err}
	case n > blob.MaxSize:
		return blobRow{}, nil, &blob.TooLargeError{Limit: blob.MaxSize}
	}
	return blobRow{size: n, sums: sums.end()}, digest.Sum(nil), nil
}

// contextReader reads until ctx ends and knows who failed.
type contextReader struct {
	ctx    context.Context
	r      io.Reader
	failed bool
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		c.failed = true
		return 0, err
	}
	n, err := c.r.Read(p)
	c.failed = err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// blockSums is the checksum of each block of what is written to it.
type blockSums struct {
	sums []uint32
	h    hash.Hash32
	n    int
}

func (b *blockSums) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if b.h == nil {
			b.h = crc32.New(castagnoli)
		}
		part := rest[:min(len(rest), blobBlock-b.n)]
		_, _ = b.h.Write(part) // a hash never fails
		b.n += len(part)
		rest = rest[len(part):]
		if b.n == blobBlock {
			b.end()
		}
	}
	return len(p), nil
}

// end closes the last block and gives all checksums.
func (b *blockSums) end() []uint32 {
	if b.n > 0 {
		b.sums = append(b.sums, b.h.Sum32())
		b.h, b.n = nil, 0
	}
	return b.sums
}

// blobLock is held while file and row of a blob change together, so that one
// who removes a blob does not take the file of one who puts it again.
func (db *DB) blobLock(id string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = io.WriteString(h, id)
	return &db.blobLocks[h.Sum32()%uint32(len(db.blobLocks))]
}

// putBlob makes a written file a blob. One that exists already is kept, and
// its expiry is taken back; if it must be new, that is an error instead.
func (db *DB) putBlob(ctx context.Context, f *os.File, id string, row blobRow, isNew bool) (blob.Info, error) {
	lock := db.blobLock(id)
	lock.Lock()
	defer lock.Unlock()
	if isNew {
		// The file may not replace that of another content, so this is asked before; the lock keeps the answer true.
		if _, err := (blobStore{db}).find(ctx, id); !isNoBlob(err) {
			if err == nil {
				err = &blob.ExistsError{ID: id}
			}
			return blob.Info{}, errors.Join(err, db.blobs.discard(f))
		}
	}
	if err := db.blobs.adopt(f, id); err != nil {
		return blob.Info{}, &state.StorageError{Op: "blob.put", Retry: true, Err: err}
	}
	key := []byte(id)
	stored, err := submit(db, "blob.put", nil, func(tx *bbolt.Tx, c *commitCtx) (blobRow, error) {
		old, there, err := db.blobRow(tx, id)
		if err != nil {
			there = false // a damaged row is written anew
		}
		next := row
		if there && !old.expired(c.now().UnixMilli()) {
			next = old
			next.expires = 0
		}
		if there && old.expires != 0 {
			if err := c.delete(expiryBucket, expiryKey(expiryBlob, key, old.expires)); err != nil {
				return blobRow{}, err
			}
		}
		return next, c.put(blobBucket, key, next.encode(key))
	}).Wait(ctx)
	if err != nil {
		return blob.Info{}, err
	}
	return stored.info(id), nil
}

func isNoBlob(err error) bool {
	var none *blob.NotFoundError
	return errors.As(err, &none)
}

// Stat describes a blob.
func (s blobStore) Stat(ctx context.Context, id string) (blob.Info, string, error) {
	row, err := s.find(ctx, id)
	if err != nil {
		return blob.Info{}, "", err
	}
	return row.info(id), row.session, nil
}

func (s blobStore) find(ctx context.Context, id string) (blobRow, error) {
	var row blobRow
	now := s.db.clock.Now().UnixMilli()
	err := s.db.view(ctx, "blob.stat", func(tx *bbolt.Tx) error {
		var there bool
		var err error
		row, there, err = s.db.blobRow(tx, id)
		if err == nil && (!there || row.expired(now)) {
			err = &blob.NotFoundError{ID: id}
		}
		return err
	})
	return row, err
}

// Delete removes a blob.
func (s blobStore) Delete(ctx context.Context, id string) error {
	_, err := s.db.removeBlob(ctx, id, false)
	return err
}

// removeBlob removes the row, then the file. A process killed in between
// leaves a file that the next Open removes.
func (db *DB) removeBlob(ctx context.Context, id string, onlyExpired bool) (bool, error) {
	lock := db.blobLock(id)
	lock.Lock()
	defer lock.Unlock()
	removed, err := submit(db, "blob.delete", nil, func(tx *bbolt.Tx, c *commitCtx) (bool, error) {
		row, there, err := db.blobRow(tx, id)
		if !there || onlyExpired && (err != nil || !row.expired(c.now().UnixMilli())) {
			return false, nil
		}
		if row.expires != 0 {
			if err := c.delete(expiryBucket, expiryKey(expiryBlob, []byte(id), row.expires)); err != nil {
				return false, err
			}
		}
		return true, c.delete(blobBucket, []byte(id))
	}).Wait(ctx)
	if err != nil || !removed {
		return false, err
	}
	if err := db.blobs.remove(id); err != nil {
		db.logger.Warn("cannot remove the file of a blob", "id", id, "error", err)
	}
	return true, nil
}

// Expire marks a blob for deletion. Errors: *blob.NotFoundError.
func (s blobStore) Expire(ctx context.Context, id string, t time.Time) error {
	_, err := submit(s.db, "blob.expire", nil, func(tx *bbolt.Tx, c *commitCtx) (struct{}, error) {
		key := []byte(id)
		row, there, err := s.db.blobRow(tx, id)
		if err == nil && (!there || row.expired(c.now().UnixMilli())) {
			err = &blob.NotFoundError{ID: id}
		}
		if err != nil {
			return struct{}{}, err
		}
		if row.expires != 0 {
			if err := c.delete(expiryBucket, expiryKey(expiryBlob, key, row.expires)); err != nil {
				return struct{}{}, err
			}
		}
		if row.expires = millis(t); row.expires != 0 {
			if err := c.putIndex(expiryBucket, expiryKey(expiryBlob, key, row.expires)); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, c.put(blobBucket, key, row.encode(key))
	}).Wait(ctx)
	return err
}
