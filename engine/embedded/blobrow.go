package embedded

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/blob"
)

// blobRow is what is known of a blob.
type blobRow struct {
	session string
	mime    string
	size    int64
	expires int64 // epoch ms, 0 for never
	// sums has a checksum for every blobBlock bytes.
	sums []uint32
}

func (r *blobRow) expired(nowMS int64) bool { return r.expires != 0 && r.expires <= nowMS }

func (r *blobRow) info(id string) blob.Info { return blob.Info{ID: id, Size: r.size, MIME: r.mime} }

// encode gives the stored form, which is a record.
func (r *blobRow) encode(key []byte) []byte {
	b := make([]byte, 0, len(r.session)+len(r.mime)+4*len(r.sums)+32)
	b = appendText(b, r.session)
	b = appendText(b, r.mime)
	b = binary.AppendVarint(b, r.size)
	for _, s := range r.sums {
		b = binary.BigEndian.AppendUint32(b, s)
	}
	rec := record{Version: 1, Expires: r.expires, Value: b}
	return rec.encode(key)
}

func decodeBlobRow(key, data []byte) (blobRow, error) {
	rec, err := decodeRecord(key, data)
	if err != nil {
		return blobRow{}, err
	}
	in := reader{b: rec.Value}
	r := blobRow{expires: rec.Expires, session: in.text(), mime: in.text(), size: in.varint()}
	if in.bad || r.size < 0 || r.size > blob.MaxSize || int64(len(in.b)) != 4*((r.size+blobBlock-1)/blobBlock) {
		return blobRow{}, errRecord
	}
	r.sums = make([]uint32, len(in.b)/4)
	for i := range r.sums {
		r.sums[i] = in.uint32()
	}
	return r, nil
}

func blobWhat(id []byte) string { return fmt.Sprintf("blob %q", id) }

// blobRow reads a row inside of a transaction.
func (db *DB) blobRow(tx *bbolt.Tx, id string) (row blobRow, there bool, err error) {
	if id == "" {
		return blobRow{}, false, nil
	}
	key := []byte(id)
	v := tx.Bucket(blobBucket).Get(key)
	if v == nil {
		return blobRow{}, false, nil
	}
	if row, err = decodeBlobRow(key, v); err != nil {
		err = &CorruptError{Path: db.path(), What: blobWhat(key), Err: err}
	}
	return row, true, err
}
