package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// recordFormat is the first byte of every record.
const recordFormat = 1

// The fields that a record may have, in this order behind the version.
const (
	hasDue = 1 << iota
	hasExpires
	hasAt
	hasEvent
	hasBy
	hasFile
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errChecksum = errors.New("checksum does not match")
	errRecord   = errors.New("not a record")
)

// record is a stored value with what belongs to it. A value above
// state.InlineLimit lies in a file, named by File; Value is then nil.
type record struct {
	Version  int64
	Due      int64 // epoch ms, 0 for none
	Expires  int64 // epoch ms, 0 for never
	At       int64 // epoch ms
	EventID  string
	By       string
	File     string
	FileSize int64
	FileSum  uint32
	Value    []byte
}

// expired reports whether the record counts as absent.
func (r *record) expired(nowMS int64) bool { return r.Expires != 0 && r.Expires <= nowMS }

// size is the size of the value.
func (r *record) size() int64 {
	if r.File != "" {
		return r.FileSize
	}
	return int64(len(r.Value))
}

// encode gives the stored form. Its checksum covers the key too, so that a
// record is never taken for that of another key.
func (r *record) encode(key []byte) []byte {
	b := make([]byte, 0, len(r.Value)+len(r.EventID)+len(r.By)+len(r.File)+64)
	flags := byte(0)
	for i, set := range []bool{r.Due != 0, r.Expires != 0, r.At != 0, r.EventID != "", r.By != "", r.File != ""} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, recordFormat, flags)
	b = binary.AppendVarint(b, r.Version)
	for _, ms := range []int64{r.Due, r.Expires, r.At} {
		if ms != 0 {
			b = binary.AppendVarint(b, ms)
		}
	}
	if r.EventID != "" {
		b = appendText(b, r.EventID)
	}
	if r.By != "" {
		b = appendText(b, r.By)
	}
	if r.File != "" {
		b = appendText(b, r.File)
		b = binary.AppendVarint(b, r.FileSize)
		b = binary.BigEndian.AppendUint32(b, r.FileSum)
	}
	b = append(b, r.Value...)
	return seal(key, b)
}

// seal appends the checksum of a key and its value.
func seal(key, body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, recordSum(key, body))
}

// unseal is the inverse of seal.
func unseal(key, data []byte) (body []byte, err error) {
	if len(data) < 4 {
		return nil, errRecord
	}
	body = data[:len(data)-4]
	if recordSum(key, body) != binary.BigEndian.Uint32(data[len(body):]) {
		return nil, errChecksum
	}
	return body, nil
}

func recordSum(key, body []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, body)
}

// decodeRecord is the inverse of encode. Value points into data.
func decodeRecord(key, data []byte) (record, error) {
	body, err := unseal(key, data)
	if err != nil {
		return record{}, err
	}
	if len(body) < 3 || body[0] != recordFormat {
		return record{}, errRecord
	}
	flags := body[1]
	in := reader{b: body[2:]}
	r := record{Version: in.varint()}
	for i, field := range []*int64{&r.Due, &r.Expires, &r.At} {
		if flags&(1<<i) != 0 {
			*field = in.varint()
		}
	}
	if flags&hasEvent != 0 {
		r.EventID = in.text()
	}
	if flags&hasBy != 0 {
		r.By = in.text()
	}
	if flags&hasFile != 0 {
		r.File = in.text()
		r.FileSize = in.varint()
		r.FileSum = in.uint32()
	} else {
		r.Value = in.b
	}
	if in.bad {
		return record{}, errRecord
	}
	return r, nil
}

// appendText appends a string with its length.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes fields off the front of b. After the first that is not there
// bad is set and all fields are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint32() uint32 {
	if len(r.b) < 4 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

// bytes takes a string with its length; it points into the input.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string { return string(r.bytes()) }

func (r *reader) fail() { r.b, r.bad = nil, true }
