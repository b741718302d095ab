package enginetest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/clock"
)

// NewBlob makes an empty store for a test.
type NewBlob func(t *testing.T, c clock.Clock) blob.Store

// RunBlob is the suite of blob.Store.
func RunBlob(t *testing.T, open NewBlob) {
	t.Helper()
	for _, tt := range blobCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := clock.NewFake(time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC))
			tt.run(t, open(t, c), c)
		})
	}
}

func putBlob(t *testing.T, s blob.Store, session, mime, content string) blob.Info {
	t.Helper()
	info, err := s.Put(t.Context(), session, mime, strings.NewReader(content))
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return info
}

func readBlob(t *testing.T, s blob.Store, id string, offset int64) string {
	t.Helper()
	r, err := s.Open(t.Context(), id, offset)
	if err != nil {
		t.Fatalf("open at %d: %v", offset, err)
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read from %d: %v", offset, err)
	}
	return string(b)
}

func wantNoBlob(t *testing.T, s blob.Store, id string) {
	t.Helper()
	var e *blob.NotFoundError
	if _, _, err := s.Stat(t.Context(), id); !errors.As(err, &e) || e.ID != id {
		t.Errorf("stat: got error %v, want a *blob.NotFoundError of %q", err, id)
	}
	if _, err := s.Open(t.Context(), id, 0); !errors.As(err, &e) {
		t.Errorf("open: got error %v, want a *blob.NotFoundError", err)
	}
}

// pattern is n bytes in which every place can be told.
func pattern(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>16) ^ byte(i>>8) ^ byte(i)
	}
	return string(b)
}

// failing is a reader that fails after some bytes.
type failing struct{ r io.Reader }

var errReader = errors.New("the reader failed")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = errReader
	}
	return n, err
}

var blobCases = []struct {
	name string
	run  func(t *testing.T, s blob.Store, c *clock.Fake)
}{
	{"put, stat and read", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		info := putBlob(t, s, "s1", "text/plain", "hello")
		if info.ID == "" || info.Size != 5 || info.MIME != "text/plain" {
			t.Errorf("got %+v; want an id, 5 bytes, text/plain", info)
		}
		stat, session, err := s.Stat(t.Context(), info.ID)
		if err != nil || session != "s1" {
			t.Fatalf("got session %q, error %v; want s1", session, err)
		}
		if diff := cmp.Diff(info, stat); diff != "" {
			t.Errorf("stat (-put +stat):\n%s", diff)
		}
		if got := readBlob(t, s, info.ID, 0); got != "hello" {
			t.Errorf("got %q, want hello", got)
		}
	}},
	{"reads from any offset", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		content := pattern(200_000)
		id := putBlob(t, s, "s", "", content).ID
		for _, offset := range []int{0, 1, 65535, 65536, 65537, 131072, 199_999, 200_000, 200_001, 1 << 40} {
			want := content[min(offset, len(content)):]
			if got := readBlob(t, s, id, int64(offset)); got != want {
				t.Errorf("from %d: got %d bytes, want %d and the same", offset, len(got), len(want))
			}
		}
		if _, err := s.Open(t.Context(), id, -1); err == nil {
			t.Error("from -1: got no error")
		}
	}},
	{"an empty blob", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		info := putBlob(t, s, "s", "", "")
		if got := readBlob(t, s, info.ID, 0); got != "" || info.Size != 0 {
			t.Errorf("got %q, %+v; want nothing", got, info)
		}
	}},
	{"a repeat gives the same blob, another session another", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		a := putBlob(t, s, "s1", "text/plain", "x")
		if diff := cmp.Diff(a, putBlob(t, s, "s1", "text/plain", "x")); diff != "" {
			t.Errorf("repeat (-first +second):\n%s", diff)
		}
		if b := putBlob(t, s, "s2", "text/plain", "x"); b.ID == a.ID {
			t.Error("two sessions share a blob")
		}
		if b := putBlob(t, s, "s1", "text/plain", "y"); b.ID == a.ID {
			t.Error("two contents share a blob")
		}
		if err := s.Delete(t.Context(), putBlob(t, s, "s2", "text/plain", "x").ID); err != nil {
			t.Fatal(err)
		}
		if got := readBlob(t, s, a.ID, 0); got != "x" {
			t.Errorf("got %q after the other session's was deleted, want x", got)
		}
	}},
	{"a session and content cannot be split otherwise", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		if putBlob(t, s, "ab", "", "c").ID == putBlob(t, s, "a", "", "bc").ID {
			t.Error("two blobs share an id")
		}
	}},
	{"under a given id", func(t *testing.T, s blob.Store, c *clock.Fake) {
		id := strings.Repeat("0a", 20)
		wantNoBlob(t, s, id)
		info, err := s.PutAs(t.Context(), id, "s1", "text/plain", strings.NewReader("hello"))
		if diff := cmp.Diff(blob.Info{ID: id, Size: 5, MIME: "text/plain"}, info); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if _, session, err := s.Stat(t.Context(), id); err != nil || session != "s1" || readBlob(t, s, id, 0) != "hello" {
			t.Errorf("got session %q, %v", session, err)
		}
		var e *blob.ExistsError
		if _, err := s.PutAs(t.Context(), id, "s1", "text/plain", strings.NewReader("other")); !errors.As(err, &e) || e.ID != id {
			t.Errorf("again: got %v, want an *blob.ExistsError", err)
		}
		if got := readBlob(t, s, id, 0); got != "hello" {
			t.Errorf("got %q after a second put", got)
		}
		expire(t, s, id, c.Now().Add(time.Second))
		c.Advance(time.Second)
		if _, err := s.PutAs(t.Context(), id, "s2", "", strings.NewReader("new")); err != nil || readBlob(t, s, id, 0) != "new" {
			t.Errorf("after the first has expired: %v", err)
		}
		for _, bad := range []string{"", "x", strings.Repeat("0A", 20), strings.Repeat("0", 41), "../" + strings.Repeat("0", 37)} {
			if _, err := s.PutAs(t.Context(), bad, "s", "", strings.NewReader("")); err == nil {
				t.Errorf("an id of %q", bad)
			}
		}
	}},
	{"an unknown blob", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		for _, id := range []string{"", "x", "none", "../../etc/passwd", strings.Repeat("a", 40), "a\x00b"} {
			wantNoBlob(t, s, id)
			if err := s.Delete(t.Context(), id); err != nil {
				t.Errorf("delete %q: %v", id, err)
			}
		}
		var e *blob.NotFoundError
		if err := s.Expire(t.Context(), "none", time.Time{}); !errors.As(err, &e) {
			t.Errorf("expire: got error %v, want a *blob.NotFoundError", err)
		}
	}},
	{"delete", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		id := putBlob(t, s, "s", "", "x").ID
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wantNoBlob(t, s, id)
		if again := putBlob(t, s, "s", "", "x"); again.ID != id || readBlob(t, s, id, 0) != "x" {
			t.Error("the same content cannot be stored again")
		}
	}},
	{"the largest blob, and one byte more", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		content := bytes.Repeat([]byte{1}, blob.MaxSize+1)
		var e *blob.TooLargeError
		if _, err := s.Put(t.Context(), "s", "", bytes.NewReader(content)); !errors.As(err, &e) || e.Limit != blob.MaxSize {
			t.Errorf("got error %v, want a *blob.TooLargeError", err)
		}
		info, err := s.Put(t.Context(), "s", "", bytes.NewReader(content[1:]))
		if err != nil {
			t.Fatal(err)
		}
		if got := readBlob(t, s, info.ID, blob.MaxSize-3); got != "\x01\x01\x01" {
			t.Errorf("got %q at the end", got)
		}
	}},
	{"a reader that fails stores nothing", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		if _, err := s.Put(t.Context(), "s", "", failing{strings.NewReader("x")}); !errors.Is(err, errReader) {
			t.Errorf("got error %v, want that of the reader", err)
		}
		ctx, cancel := contextWithCancel(t)
		cancel()
		if _, err := s.Put(ctx, "s", "", strings.NewReader("x")); err == nil {
			t.Error("ended context: got no error")
		}
		info := putBlob(t, s, "s", "", "x")
		if got := readBlob(t, s, info.ID, 0); got != "x" {
			t.Errorf("got %q, want x", got)
		}
	}},
	{"an expired blob is gone", func(t *testing.T, s blob.Store, c *clock.Fake) {
		id := putBlob(t, s, "s", "", "x").ID
		expire(t, s, id, c.Now().Add(time.Hour))
		c.Advance(time.Hour - time.Millisecond)
		if got := readBlob(t, s, id, 0); got != "x" {
			t.Errorf("got %q before the expiry", got)
		}
		c.Advance(time.Millisecond)
		wantNoBlob(t, s, id)
		var e *blob.NotFoundError
		if err := s.Expire(t.Context(), id, time.Time{}); !errors.As(err, &e) {
			t.Errorf("expire after the expiry: got error %v, want a *blob.NotFoundError", err)
		}
	}},
	{"an expiry can be moved and taken back", func(t *testing.T, s blob.Store, c *clock.Fake) {
		moved, kept, again := putBlob(t, s, "s", "", "1").ID, putBlob(t, s, "s", "", "2").ID, putBlob(t, s, "s", "", "3").ID
		for _, id := range []string{moved, kept, again} {
			expire(t, s, id, c.Now().Add(time.Hour))
		}
		expire(t, s, moved, c.Now().Add(2*time.Hour))
		expire(t, s, kept, time.Time{})
		putBlob(t, s, "s", "", "3") // whoever stores it again wants it
		c.Advance(time.Hour)
		for id, want := range map[string]string{moved: "1", kept: "2", again: "3"} {
			if got := readBlob(t, s, id, 0); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		c.Advance(time.Hour)
		wantNoBlob(t, s, moved)
	}},
	{"an expired blob can be stored again", func(t *testing.T, s blob.Store, c *clock.Fake) {
		id := putBlob(t, s, "s", "", "x").ID
		expire(t, s, id, c.Now().Add(time.Minute))
		c.Advance(time.Hour)
		if again := putBlob(t, s, "s", "", "x"); again.ID != id || readBlob(t, s, id, 0) != "x" {
			t.Errorf("got %+v, want the blob", again)
		}
	}},
	{"many put and delete the same blob", func(t *testing.T, s blob.Store, _ *clock.Fake) {
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for i := range 10 {
					info, err := s.Put(t.Context(), "s", "", strings.NewReader("same"))
					if err == nil && i%3 == 2 {
						err = s.Delete(t.Context(), info.ID)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		info := putBlob(t, s, "s", "", "same")
		if got := readBlob(t, s, info.ID, 0); got != "same" {
			t.Errorf("got %q, want same", got)
		}
	}},
}

func expire(t *testing.T, s blob.Store, id string, at time.Time) {
	t.Helper()
	if err := s.Expire(t.Context(), id, at); err != nil {
		t.Fatalf("expire: %v", err)
	}
}
