package embedded

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func validName(s string) bool {
	return checkName("name", s, maxKey) == nil
}

// FuzzTuple: tuples come back, never collide and sort part by part.
func FuzzTuple(f *testing.F) {
	f.Add("s", "k", "s", "l")
	f.Add("a", "bc", "ab", "c")
	f.Add("a\x01", "b", "a", "\x01b")
	f.Add("é", "\U0001F600", "\uffff", "/")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if !validName(a) || !validName(b) || !validName(c) || !validName(d) {
			return
		}
		x, y := tuple(a, b), tuple(c, d)
		parts, ok := split(x, 2)
		if diff := cmp.Diff([]string{a, b}, parts); !ok || diff != "" {
			t.Errorf("split (-want +got):\n%s", diff)
		}
		if got, want := bytes.Compare(x, y), slices.Compare([]string{a, b}, []string{c, d}); got != want {
			t.Errorf("%q and %q compare as %d, want %d", x, y, got, want)
		}
		if inside := bytes.HasPrefix(y, prefix(a)); inside != (a == c) {
			t.Errorf("%q has the prefix of %q: %v", y, a, inside)
		}
		if first, ok := firstPart(x); !ok || first != a {
			t.Errorf("got first part %q, want %q", first, a)
		}
		if end := behind(prefix(a)); bytes.Compare(x, end) >= 0 || (c > a && bytes.Compare(y, end) < 0) {
			t.Errorf("%q is not between %q and %q", end, x, y)
		}
	})
}

// FuzzName: what is accepted is bounded text without NUL.
func FuzzName(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00", "\xff", strings.Repeat("k", maxKey), strings.Repeat("k", maxKey+1), "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := len(s) >= 1 && len(s) <= maxKey && utf8.ValidString(s) && !strings.Contains(s, "\x00")
		if got := validName(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	})
}

// FuzzTime: times sort as their bytes do.
func FuzzTime(f *testing.F) {
	f.Add(int64(0), int64(1))
	f.Add(int64(-1), int64(1<<62))
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, y := appendTime(nil, a), appendTime(nil, b)
		if got := bytes.Compare(x, y); (got < 0) != (a < b) || (got > 0) != (a > b) {
			t.Errorf("%d and %d compare as %d", a, b, got)
		}
		back, rest, ok := takeTime(append(x, 'z'))
		if !ok || back != a || string(rest) != "z" {
			t.Errorf("got %d, rest %q, ok %v; want %d", back, rest, ok, a)
		}
	})
}

// FuzzRecord: a record comes back, and belongs to its key alone.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("key"), int64(1), int64(0), int64(0), int64(0), "", "", "", []byte("value"))
	f.Add([]byte(""), int64(-1), int64(5), int64(1<<60), int64(-7), "id", "step", "", []byte{})
	f.Add([]byte("k"), int64(1), int64(0), int64(0), int64(9), "", "", "file", []byte(nil))
	f.Fuzz(func(t *testing.T, key []byte, version, due, expires, at int64, id, by, file string, value []byte) {
		r := record{Version: version, Due: due, Expires: expires, At: at, EventID: id, By: by, Value: value}
		if file != "" {
			r.File, r.FileSize, r.FileSum, r.Value = file, due, uint32(at), nil
		}
		b := r.encode(key)
		got, err := decodeRecord(key, b)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Value) == 0 && len(r.Value) == 0 {
			got.Value, r.Value = nil, nil
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		if _, err := decodeRecord(append(bytes.Clone(key), 'x'), b); err == nil {
			t.Error("another key: got no error")
		}
		b[len(b)/2] ^= 1
		if _, err := decodeRecord(key, b); err == nil {
			t.Error("a changed byte: got no error")
		}
	})
}

// FuzzDecodeRecord: garbage is refused, also with a checksum that fits.
func FuzzDecodeRecord(f *testing.F) {
	sample := record{Version: 3, Due: 5, EventID: "id", By: "step", File: "f", FileSize: 9}
	f.Add([]byte("key"), sample.encode([]byte("key")))
	f.Add([]byte("key"), []byte{})
	f.Add([]byte(""), []byte{recordFormat, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, key, data []byte) {
		if r, err := decodeRecord(key, data); err == nil {
			if b := r.encode(key); len(b) > len(data) {
				t.Errorf("%x was taken for %+v", data, r)
			}
		}
		// Past the checksum every decoder must hold.
		whole := seal(key, bytes.Clone(data))
		if r, err := decodeRecord(key, whole); err == nil && len(r.Value) > len(data) {
			t.Errorf("got a value of %d bytes from %d", len(r.Value), len(data))
		}
		rec := record{Version: 1, Value: data}
		if row, err := decodeBlobRow(key, rec.encode(key)); err == nil && int64(len(row.sums)) != (row.size+blobBlock-1)/blobBlock {
			t.Errorf("got %d checksums of %d bytes", len(row.sums), row.size)
		}
		if head, err := decodeLogHead(key, rec.encode(key)); err == nil && head.epoch == "" {
			t.Error("got a log without an epoch")
		}
		if row, err := decodeFeedRow(data); err == nil && (row.Change == nil) == (row.Event == nil) {
			t.Errorf("got %+v", row)
		}
	})
}

// FuzzCheckFile: no content makes the check of a file panic or run away.
func FuzzCheckFile(f *testing.F) {
	f.Add(uint32(16), []byte{1})
	f.Add(uint32(4096*2+10), []byte{0xff, 0xff})
	f.Add(uint32(4096*3), []byte("garbage"))
	f.Add(uint32(4096*4+12), []byte{0, 0, 0, 0xff})
	var whole []byte
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		if whole == nil {
			_, whole = makeFile(t)
		}
		b := bytes.Clone(whole)
		copy(b[int(at)%len(b):], patch)
		if err := checkFile(bytes.NewReader(b), uint64(len(b)), checkRecord); err != nil && bytes.Equal(b, whole) {
			t.Errorf("a whole file is refused: %v", err)
		}
	})
}
