package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// dump is everything that the readers of a DB see, as text.
func dump(db *DB) (string, error) {
	ctx := context.Background()
	var b strings.Builder
	groups, err := db.State().Groups(ctx)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		items, err := db.State().List(ctx, g, state.ListOptions{})
		if err != nil {
			return "", err
		}
		due, err := db.State().Due(ctx, g, db.clock.Now(), 0)
		if err != nil {
			return "", err
		}
		for _, item := range append(items, due...) {
			fmt.Fprintln(&b, item.Scope, item.Key.Key, item.Version, item.Due.UnixMilli(), string(item.Value))
		}
	}
	items, err := db.Streams().Read(ctx, "log", "g", 0, 0, 0)
	if err != nil {
		return "", err
	}
	for _, item := range items {
		fmt.Fprintln(&b, item.Item, item.EventID, string(item.Data))
	}
	fmt.Fprintln(&b, db.Feed(FeedState).Waiting())
	err = db.view(ctx, "dump", func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(k, v []byte) error {
				_, err := fmt.Fprintf(&b, "%q %q %q\n", name, k, v)
				return err
			})
		})
	})
	return b.String(), err
}

// tryDamaged opens a damaged file. It is refused, or reading from it gives what
// was written or says that it is damaged.
func tryDamaged(t *testing.T, what string, content []byte, want string) (refused bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, dataFile), content, fileMode); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Options{Dir: dir, NoSync: true, Clock: fakeClock()})
	var damaged *CorruptError
	var format *FormatError
	if errors.As(err, &damaged) || errors.As(err, &format) {
		return true
	}
	if err != nil {
		t.Errorf("%s: got error %v, want a *CorruptError", what, err)
		return false
	}
	defer closeTest(t, db)
	if got, err := dump(db); !errors.As(err, &damaged) && (err != nil || got != want) {
		t.Errorf("%s: the file was taken, and reading it gives error %v, the same text: %v", what, err, got == want)
	}
	return false
}

// wantDump is the dump of a whole file of makeFile.
func wantDump(t *testing.T, dir string) string {
	t.Helper()
	db := openTest(t, Options{Dir: dir, NoSync: true, Clock: fakeClock()})
	want, err := dump(db)
	if err != nil || !strings.Contains(want, "canary-record") {
		t.Fatalf("dump: %v", err)
	}
	closeTest(t, db)
	return want
}

// TestNoDamageIsServed damages a data file in every page. Either the file is
// refused, or what is read from it is what was written.
func TestNoDamageIsServed(t *testing.T) {
	t.Parallel()
	dir, whole := makeFile(t)
	want := wantDump(t, dir)
	r := rand.New(rand.NewPCG(1, 2))
	const pageSize = 4096 // half a page of the file at a time
	refused := 0
	try := func(what string, content []byte) {
		if tryDamaged(t, what, content, want) {
			refused++
		}
	}
	for page := 0; page*pageSize < len(whole); page++ {
		at := page * pageSize
		end := min(at+pageSize, len(whole))
		try(fmt.Sprintf("page %d zeroed", page), append(append(bytes.Clone(whole[:at]), make([]byte, end-at)...), whole[end:]...))
		for range 4 {
			b := bytes.Clone(whole)
			// Most of what matters stands at the start of a page.
			n := at + r.IntN(end-at)
			if r.IntN(2) == 0 {
				n = at + r.IntN(64)
			}
			b[n] ^= byte(1 + r.IntN(255))
			try(fmt.Sprintf("byte %d of page %d", n-at, page), b)
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

// TestEveryKindOfByteIsGuarded changes, on each page, the bytes that bbolt goes
// by and some of every record.
func TestEveryKindOfByteIsGuarded(t *testing.T) {
	t.Parallel()
	dir, whole := makeFile(t)
	want := wantDump(t, dir)
	root, spans := liveSpans(t, whole)
	refused, tried := map[string]int{}, map[string]int{}
	b := bytes.Clone(whole)
	for _, s := range spans {
		for at := s.from; at < s.to; at++ {
			// All of what has no checksum, which on the root page is all.
			every := at/pageSize == int(root) || at-s.from < pageHeader+2*pageElement || s.to-at <= 8
			if !every && at%97 != 0 {
				continue
			}
			for n, v := range []byte{whole[at] ^ 0xff, whole[at] ^ 1, whole[at] ^ 0x80, 0} {
				if v == whole[at] || every && at/pageSize == int(root) && n != at%4 && n != 1 {
					continue
				}
				b[at] = v
				tried[s.kind]++
				if checkFile(bytes.NewReader(b), uint64(len(b)), checkRecord) != nil ||
					tryDamaged(t, fmt.Sprintf("byte %d of page %d (%s) as %#x", at%pageSize, at/pageSize, s.kind, v), b, want) {
					refused[s.kind]++
				}
			}
			b[at] = whole[at]
		}
	}
	t.Logf("tried %v, refused %v", tried, refused)
	for _, kind := range []string{"meta", "free list", "branch", "leaf", "overflow"} {
		// What was taken reads as before: bbolt's sequences, which nothing uses.
		if tried[kind] < 50 || kind != "leaf" && refused[kind] != tried[kind] {
			t.Errorf("%s: refused %d of %d", kind, refused[kind], tried[kind])
		}
	}
}

// span is bytes of a file that are in use.
type span struct {
	kind     string
	from, to int
}

// liveSpans is where the pages in use are in a whole file, up to where they end.
func liveSpans(t *testing.T, whole []byte) (root uint64, spans []span) {
	t.Helper()
	meta, err := readMeta(bytes.NewReader(whole), uint64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	c := &fileCheck{f: bytes.NewReader(whole), meta: meta, seen: make([]bool, meta.pages), record: checkRecord}
	if err := c.tree("", meta.root, nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	c.seen[meta.freelist] = true
	spans = []span{{"meta", 0, pageHeader + metaSize}, {"meta", pageSize, pageSize + pageHeader + metaSize}}
	ne := binary.NativeEndian
	for id := 2; id < int(meta.pages); id++ {
		if !c.seen[id] {
			continue
		}
		at := id * pageSize
		p := parsePage(whole[at:])
		last := at + pageHeader + (p.count-1)*pageElement
		switch p.flags {
		case freelistPage:
			spans = append(spans, span{"free list", at, at + pageHeader + 8*p.count})
		case branchPage:
			spans = append(spans, span{"branch", at, last + int(ne.Uint32(whole[last:])+ne.Uint32(whole[last+4:]))})
		case leafPage:
			kind := "leaf"
			if p.overflow > 0 {
				kind = "overflow"
			}
			spans = append(spans, span{kind, at, last + int(ne.Uint32(whole[last+4:])+ne.Uint32(whole[last+8:])+ne.Uint32(whole[last+12:]))})
		default:
			t.Fatalf("page %d has the type %#x", id, p.flags)
		}
		id += int(p.overflow)
	}
	return meta.root, spans
}

// damageRecord changes a stored record behind the back of the DB.
func damageRecord(t *testing.T, db *DB, bucket, key []byte) {
	t.Helper()
	err := db.bolt.Update(func(tx *bbolt.Tx) error {
		v := bytes.Clone(tx.Bucket(bucket).Get(key))
		v[len(v)/2] ^= 1
		return tx.Bucket(bucket).Put(key, v)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func wantCorrupt(t *testing.T, what string, err error, names string) {
	t.Helper()
	var e *CorruptError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), names) {
		t.Errorf("%s: got error %v, want a *CorruptError that names %s", what, err, names)
	}
}

func TestADamagedStateRecordIsRefused(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	s := db.State()
	w := state.Set("s", "k", json.RawMessage(`"value"`))
	w.Due = time.UnixMilli(1)
	if _, err := state.Do(t.Context(), s, w); err != nil {
		t.Fatal(err)
	}
	damageRecord(t, db, stateBucket, tuple("s", "k"))
	const names = `state "s"/"k"`
	_, _, err := s.Get(t.Context(), state.Key{Scope: "s", Key: "k"})
	wantCorrupt(t, "get", err, names)
	_, err = s.List(t.Context(), "s", state.ListOptions{})
	wantCorrupt(t, "list", err, names)
	_, err = s.Groups(t.Context())
	wantCorrupt(t, "groups", err, names)
	_, err = s.Due(t.Context(), "s", time.Now(), 0)
	wantCorrupt(t, "due", err, names)
	_, err = state.Do(t.Context(), s, state.Set("s", "k", nil))
	wantCorrupt(t, "set", err, names)
	_, err = state.Do(t.Context(), s, state.Delete("s", "k").IfVersion(1))
	wantCorrupt(t, "delete with a condition", err, names)
	setTest(t, db, "s", "other", `1`)
	if _, err := state.Do(t.Context(), s, state.Delete("s", "k")); err != nil {
		t.Errorf("delete: %v", err)
	}
	wantNone(t, db, "s", "k")
	setTest(t, db, "s", "k", `1`)
	if items, err := s.Due(t.Context(), "s", time.Now(), 0); err != nil || len(items) != 0 {
		t.Errorf("due: got %v, error %v; want none", items, err)
	}
}

func TestADamagedStreamRecordIsRefused(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	s := db.Streams()
	a := stream.Append{Stream: "log", Group: "g", Base: -1, Events: []stream.LogEvent{{ID: "a", CopyTo: "copy"}}}
	if _, err := s.SubmitAppend(t.Context(), a).Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	key := stream.Key{Stream: "log", Group: "g", Item: "g-00000000"}
	damageRecord(t, db, streamBucket, tuple(key.Stream, key.Group, key.Item))
	damageRecord(t, db, streamBucket, tuple("copy", key.Group, key.Item))
	const names = `stream item "log"/"g"/"g-00000000"`
	_, _, err := s.Get(t.Context(), key)
	wantCorrupt(t, "get", err, names)
	_, err = s.List(t.Context(), "log", "g")
	wantCorrupt(t, "list", err, names)
	_, err = s.Read(t.Context(), "log", "g", 0, 0, 0)
	wantCorrupt(t, "read", err, names)
	_, err = s.SubmitAppend(t.Context(), a).Wait(within(t))
	wantCorrupt(t, "append", err, names)
	_, err = s.Submit(t.Context(), stream.Write{Key: key, Kind: state.KindSet}).Wait(within(t))
	wantCorrupt(t, "set", err, names)
	if _, err := s.Submit(t.Context(), stream.Write{Key: key, Kind: state.KindDelete}).Wait(within(t)); err != nil {
		t.Errorf("delete: %v", err)
	}
	_, err = s.SubmitAppend(t.Context(), a).Wait(within(t))
	wantCorrupt(t, "append over a damaged copy", err, `"copy"`)
	if _, err := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g2", Events: a.Events[:1]}).Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	damageRecord(t, db, logBucket, tuple("log", "g2"))
	_, err = s.Head(t.Context(), "log", "g2")
	wantCorrupt(t, "head", err, `event log "log"/"g2"`)
	_, err = s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g2", Events: a.Events}).Wait(within(t))
	wantCorrupt(t, "append", err, `event log "log"/"g2"`)
}

func TestADamagedFileOfAValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		damage func(path string) error
	}{
		{"changed", func(path string) error { return os.WriteFile(path, bytesOf('y', 300<<10), fileMode) }},
		{"cut", func(path string) error { return os.Truncate(path, 7) }},
		{"gone", os.Remove},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := openTest(t, Options{NoSync: true})
			setTest(t, db, "s", "k", `"`+string(bytesOf('x', 300<<10))+`"`)
			if err := tt.damage(files(t, db, valuesDir)[0]); err != nil {
				t.Fatal(err)
			}
			_, _, err := db.State().Get(t.Context(), state.Key{Scope: "s", Key: "k"})
			wantCorrupt(t, "get", err, `state "s"/"k"`)
			_, err = state.Do(t.Context(), db.State(), state.Set("s", "k", nil))
			wantCorrupt(t, "set", err, `state "s"/"k"`)
		})
	}
}

func readTest(t *testing.T, db *DB, id string) string {
	t.Helper()
	r, err := db.Blobs().Open(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestADamagedBlobIsRefused(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	content := bytesOf('x', 3*blobBlock)
	info, err := db.Blobs().Put(t.Context(), "s", "", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	path := db.blobs.path(info.ID)
	damaged := bytes.Clone(content)
	damaged[2*blobBlock+5] = 'y'
	if err := os.WriteFile(path, damaged, fileMode); err != nil {
		t.Fatal(err)
	}
	r, err := db.Blobs().Open(t.Context(), info.ID, 10)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	wantCorrupt(t, "read", err, info.ID)
	if len(got) != 2*blobBlock-10 {
		t.Errorf("got %d bytes, want the %d of the blocks that are whole", len(got), 2*blobBlock-10)
	}
	if err := errors.Join(r.Close(), os.Truncate(path, blobBlock)); err != nil {
		t.Fatal(err)
	}
	r, err = db.Blobs().Open(t.Context(), info.ID, 2*blobBlock)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	wantCorrupt(t, "read what was cut off", err, info.ID)
	if err := errors.Join(r.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	_, err = db.Blobs().Open(t.Context(), info.ID, 0)
	wantCorrupt(t, "open", err, info.ID)
	damageRecord(t, db, blobBucket, []byte(info.ID))
	_, _, err = db.Blobs().Stat(t.Context(), info.ID)
	wantCorrupt(t, "stat", err, info.ID)
	wantCorrupt(t, "expire", db.Blobs().Expire(t.Context(), info.ID, time.Now()), info.ID)
	if _, err := db.Blobs().Put(t.Context(), "s", "", bytes.NewReader(content)); err != nil {
		t.Errorf("put again: %v", err)
	}
	if got := readTest(t, db, info.ID); got != string(content) {
		t.Errorf("got %d bytes after it was stored again", len(got))
	}
}

func TestADamagedFeedRowIsLeftOut(t *testing.T) {
	t.Parallel()
	log := &testLog{}
	db := openTest(t, Options{NoSync: true, Logger: log.logger()})
	db.SetTriggered(func(string, string) bool { return true }, nil)
	setTest(t, db, "s", "k", `1`)
	setTest(t, db, "s", "k", `2`)
	damageRecord(t, db, feedBucket, feedKey(1))
	row, err := db.Feed(FeedState).Next(within(t))
	if err != nil || string(row.Change.New) != `2` {
		t.Errorf("got %+v, error %v; want the second row", row, err)
	}
	if !strings.Contains(log.String(), "alarm=feed_row_damaged") {
		t.Errorf("the log has no alarm: %s", log)
	}
}

// TestPageDamageIsContained damages the pages of an open file. Readers and
// writers get errors, and the process lives.
func TestPageDamageIsContained(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]byte{"zeros": 0, "ones": 0xff, "others": 0x41} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openTest(t, Options{NoSync: true})
			fillTest(t, db)
			info, err := os.Stat(db.path())
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(db.path(), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			for at := int64(2 * pageSize); at < info.Size(); at += pageSize {
				// The header stays, so that what follows it is believed.
				if _, err := f.WriteAt(bytesOf(fill, pageSize-pageHeader), at+pageHeader); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			var coded interface{ ErrorCode() string }
			if _, _, err := db.State().Get(t.Context(), state.Key{Scope: "s", Key: "050"}); err != nil && !errors.As(err, &coded) {
				t.Errorf("get: got error %v, want one with a code", err)
			}
			if text, err := dump(db); err == nil && strings.Contains(text, "canary-record") {
				t.Error("the damage was not done")
			}
			if _, err := state.Do(within(t), db.State(), state.Set("s", "050", nil)); err != nil && !errors.As(err, &coded) {
				t.Errorf("set: got error %v, want one with a code", err)
			}
		})
	}
}

// A value where a bucket should be is damage, not a passing failure.
func TestBucketThatBecameAValueIsDamage(t *testing.T) {
	t.Parallel()
	dir, _ := makeFile(t)
	whole, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for at := 0; at+16 <= len(whole); at++ { // old copies of the page too
		if string(whole[at:min(at+len("state_due"), len(whole))]) != "state_due" {
			continue
		}
		// Leaf elements are 16 bytes: flags, pos, ksize, vsize; pos counts from
		// the element to its key.
		for e := max(at-8192, 0); e < at; e++ {
			flags, pos, ksize := binary.LittleEndian.Uint32(whole[e:]), binary.LittleEndian.Uint32(whole[e+4:]), binary.LittleEndian.Uint32(whole[e+8:])
			if flags == 1 && int(pos) == at-e && ksize == uint32(len("state_due")) {
				whole[e], found = 0, true
			}
		}
	}
	if !found {
		t.Fatal("no bucket element in the file")
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, dataFile), whole, fileMode); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Dir: broken, NoSync: true})
	var damaged *CorruptError
	if !errors.As(err, &damaged) {
		t.Errorf("error %v, want a *CorruptError", err)
	}
}

// TestChangedCountIsRefused: a page that says it has one element fewer would
// lose a record, or a whole subtree, without any checksum failing.
func TestChangedCountIsRefused(t *testing.T) {
	t.Parallel()
	_, whole := makeFile(t)
	meta, err := readMeta(bytes.NewReader(whole), uint64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	accept := func(string, []byte, []byte) error { return nil }
	check := func(b []byte) error { return checkFile(bytes.NewReader(b), uint64(len(b)), accept) }
	if err := check(whole); err != nil {
		t.Fatal(err)
	}
	// The tree's root is always in use, and so is all that a whole check visits.
	c := &fileCheck{f: bytes.NewReader(whole), meta: meta, seen: make([]bool, meta.pages), record: accept}
	if err := c.tree("", meta.root, nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for id, used := range c.seen {
		at := uint64(id) * meta.pageSize
		if !used || binary.NativeEndian.Uint64(whole[at:]) != uint64(id) {
			continue
		}
		b := bytes.Clone(whole)
		n := binary.NativeEndian.Uint16(b[at+10:])
		if n == 0 {
			continue
		}
		binary.NativeEndian.PutUint16(b[at+10:], n-1)
		tried++
		if err := check(b); err == nil {
			t.Errorf("page %d with %d of %d elements was taken", id, n-1, n)
		}
	}
	if tried == 0 {
		t.Error("no page was tried")
	}
}
