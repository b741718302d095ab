package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

func nextRow(t *testing.T, f *Feed) FeedRow {
	t.Helper()
	row, err := f.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// noRow demands that no row can be had now.
func noRow(t *testing.T, f *Feed) {
	t.Helper()
	if first, ok := f.claim(); ok {
		t.Fatalf("got row %d, want none", first.id)
	}
}

func done(t *testing.T, f *Feed, id uint64) {
	t.Helper()
	if err := commit.Wait(within(t), f.Done(id)); err != nil {
		t.Fatal(err)
	}
}

var (
	everyKey   = func(string, string) bool { return true }
	testOrigin = state.Origin{Principal: bus.Principal{ID: "p", Role: bus.RoleClient, Sessions: []string{"a*"}}, Traceparent: "00-1-2-01", Baggage: "k=v"}
)

func TestFeedHasTheChangesOfTriggeredKeys(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	f := db.Feed(FeedState)
	setTest(t, db, "s", "k", `0`)
	db.SetTriggered(func(scope, key string) bool { return scope == "s" && key != "quiet" }, nil)
	w := state.Set("s", "k", json.RawMessage(`{"b":1, "a":9007199254740993}`))
	w.Origin = testOrigin
	if _, err := state.Do(t.Context(), db.State(), w); err != nil {
		t.Fatal(err)
	}
	setTest(t, db, "s", "quiet", `1`)
	setTest(t, db, "other", "k", `1`)
	check := state.Write{Key: state.Key{Scope: "s", Key: "k"}, Kind: state.KindCheck}
	if _, err := state.Do(t.Context(), db.State(), check); err != nil {
		t.Fatal(err)
	}
	row := nextRow(t, f)
	want := FeedRow{ID: row.ID, Kind: FeedState, Deliveries: 1, Change: &state.Change{
		Key: state.Key{Scope: "s", Key: "k"}, Type: state.Updated, Version: 2, Origin: testOrigin,
		Old: json.RawMessage(`0`), New: json.RawMessage(`{"b":1, "a":9007199254740993}`),
	}}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	noRow(t, f)
	done(t, f, row.ID)
	if f.Waiting() != 0 || bucketSize(t, db, feedBucket) != 0 {
		t.Errorf("got %d rows waiting and %d stored, want none", f.Waiting(), bucketSize(t, db, feedBucket))
	}
	bad := state.Update("s", "new", state.Op{Type: "increment", Path: json.RawMessage(`"n"`), By: json.RawMessage(`"x"`)})
	if _, err := state.Do(t.Context(), db.State(), bad); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Do(t.Context(), db.State(), state.Delete("s", "absent")); err != nil {
		t.Fatal(err)
	}
	row = nextRow(t, f)
	if ch := row.Change; ch.Type != state.Created || ch.Old != nil || len(ch.OpErrors) != 1 {
		t.Errorf("got %+v; want a create with an op error", ch)
	}
	row = nextRow(t, f)
	if ch := row.Change; ch.Type != state.Deleted || ch.Old != nil || ch.New != nil {
		t.Errorf("got %+v; want a delete of nothing", ch)
	}
}

func TestFeedKeepsTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	f := db.Feed(FeedState)
	db.SetTriggered(everyKey, nil)
	for i := range 3 {
		setTest(t, db, "s", "a", fmt.Sprint("1", i))
		setTest(t, db, "s", "b", fmt.Sprint("2", i))
	}
	a, b := nextRow(t, f), nextRow(t, f)
	if string(a.Change.New) != "10" || string(b.Change.New) != "20" {
		t.Errorf("got %s and %s, want the first of each key", a.Change.New, b.Change.New)
	}
	noRow(t, f)
	done(t, f, b.ID)
	b = nextRow(t, f)
	if string(b.Change.New) != "21" {
		t.Errorf("got %s, want 21", b.Change.New)
	}
	noRow(t, f)
	f.Done(a.ID)
	f.Done(a.ID) // does no harm
	f.Done(999)
	a = nextRow(t, f)
	if string(a.Change.New) != "11" {
		t.Errorf("got %s, want 11", a.Change.New)
	}
	noRow(t, f)
}

func TestFeedHandsOutAgain(t *testing.T) {
	t.Parallel()
	c := fakeClock()
	db := openTest(t, Options{NoSync: true, Clock: c})
	f := db.Feed(FeedState)
	db.SetTriggered(everyKey, nil)
	setTest(t, db, "s", "a", `1`)
	setTest(t, db, "s", "a", `2`)
	row := nextRow(t, f)
	f.Retry(row.ID, 0)
	again := nextRow(t, f)
	if again.ID != row.ID || again.Deliveries != 2 {
		t.Errorf("got row %d, delivery %d; want %d, 2", again.ID, again.Deliveries, row.ID)
	}
	f.Retry(row.ID, time.Minute)
	f.Retry(row.ID, 0) // it is not out any more
	f.Done(row.ID)
	noRow(t, f)
	c.BlockUntil(1)
	c.Advance(time.Minute)
	again = nextRow(t, f)
	if again.ID != row.ID || again.Deliveries != 3 {
		t.Errorf("got row %d, delivery %d; want %d, 3", again.ID, again.Deliveries, row.ID)
	}
	done(t, f, row.ID)
	if next := nextRow(t, f); string(next.Change.New) != `2` {
		t.Errorf("got %s, want 2", next.Change.New)
	}
	f.Retry(nextID(f), time.Hour) // Close ends its wait
}

func nextID(f *Feed) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.out {
		return id
	}
	return 0
}

func TestFeedSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, Options{Dir: dir})
	db.SetTriggered(everyKey, everyKey)
	large := `"` + string(bytesOf('x', 300<<10)) + `"`
	setTest(t, db, "s", "a", `1`)
	setTest(t, db, "s", "a", large)
	setTest(t, db, "s", "a", `3`)
	setTest(t, db, "s", "b", `4`)
	appendTest(t, db, "g", "e1", "e2")
	f := db.Feed(FeedState)
	done(t, f, nextRow(t, f).ID)
	nextRow(t, f)
	closeTest(t, db)

	db = openTest(t, Options{Dir: dir})
	f = db.Feed(FeedState)
	if f.Waiting() != 3 || db.Feed(FeedStream).Waiting() != 2 {
		t.Errorf("got %d and %d rows waiting, want 3 and 2", f.Waiting(), db.Feed(FeedStream).Waiting())
	}
	var got []string
	for range 3 {
		row := nextRow(t, f)
		got = append(got, fmt.Sprintf("%s %.8s", row.Change.Key.Key, row.Change.New))
		if row.Deliveries != 1 {
			t.Errorf("got delivery %d, want 1", row.Deliveries)
		}
		done(t, f, row.ID)
	}
	if diff := cmp.Diff([]string{`a ` + large[:8], `b 4`, `a 3`}, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if left := files(t, db, valuesDir); len(left) != 0 {
		t.Errorf("got files %v of rows that are done", left)
	}
}

func appendTest(t *testing.T, db *DB, group string, ids ...string) {
	t.Helper()
	a := stream.Append{Stream: "log", Group: group, Base: -1, By: "step", Origin: testOrigin}
	for _, id := range ids {
		a.Events = append(a.Events, stream.LogEvent{ID: id, Data: json.RawMessage(`"` + id + `"`)})
	}
	if _, err := db.Streams().SubmitAppend(t.Context(), a).Wait(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestFeedOfStreams(t *testing.T) {
	t.Parallel()
	c := fakeClock()
	db := openTest(t, Options{NoSync: true, Clock: c})
	f := db.Feed(FeedStream)
	db.SetTriggered(nil, func(name, group string) bool { return group == "g" && name != "quiet" })
	a := stream.Append{Stream: "log", Group: "g", Base: -1, By: "step", Origin: testOrigin, Events: []stream.LogEvent{
		{ID: "a", Data: json.RawMessage(`1`)}, {ID: "b", Data: json.RawMessage(`2`), CopyTo: "ends"}, {ID: "c", CopyTo: "quiet"},
	}}
	for range 2 {
		if _, err := db.Streams().SubmitAppend(t.Context(), a).Wait(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(kind state.WriteKind, item, data string) {
		t.Helper()
		w := stream.Write{Key: stream.Key{Stream: "log", Group: "g", Item: item}, Kind: kind, Origin: testOrigin}
		if data != "" {
			w.Data = json.RawMessage(data)
		}
		if _, err := db.Streams().Submit(t.Context(), w).Wait(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	write(state.KindSet, "x", `1`)
	write(state.KindSet, "x", `2`)
	write(state.KindCheck, "x", ``)
	write(state.KindDelete, "x", ``)
	write(state.KindDelete, "x", ``) // nothing was removed: no event
	appendTest(t, db, "quiet", "z")
	ephemeral := stream.Event{Key: stream.Key{Stream: "log", Group: "g"}, Data: json.RawMessage(`{"type":"typing"}`), Origin: testOrigin}
	if err := db.Streams().Send(t.Context(), ephemeral); err != nil {
		t.Fatal(err)
	}
	event := func(name, item string, kind stream.EventKind, data, by string) string {
		return fmt.Sprint(name, " ", item, " ", kind, " ", data, " ", by)
	}
	var got []string
	for f.Waiting() > 0 {
		row := nextRow(t, f)
		e := row.Event
		got = append(got, event(e.Stream, e.Item, e.Kind, string(e.Data), e.By))
		if diff := cmp.Diff(testOrigin, e.Origin); diff != "" || !e.At.Equal(c.Now()) {
			t.Errorf("event at %v, want %v; origin (-want +got):\n%s", e.At, c.Now(), diff)
		}
		done(t, f, row.ID)
	}
	want := []string{
		event("log", "g-00000000", stream.Create, `1`, "step"),
		event("ends", "g-00000001", stream.Create, `2`, "step"),
		event("log", "g-00000001", stream.Create, `2`, "step"),
		event("log", "g-00000002", stream.Create, `null`, "step"),
		event("log", "x", stream.Create, `1`, ""),
		event("log", "x", stream.Change, `2`, ""),
		event("log", "x", stream.Remove, `2`, ""),
		event("log", "", stream.Ephemeral, `{"type":"typing"}`, ""),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := bucketSize(t, db, feedBucket); n != 0 {
		t.Errorf("got %d rows stored, want none", n)
	}
}

func TestEphemeralEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, Options{Dir: dir, NoSync: true})
	e := stream.Event{Key: stream.Key{Stream: "log", Group: "g"}}
	if err := db.Streams().Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	noRow(t, db.Feed(FeedStream)) // nobody is triggered
	db.SetTriggered(nil, everyKey)
	for range maxEphemeral {
		if err := db.Streams().Send(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	err := db.Streams().Send(t.Context(), e)
	var s *state.StorageError
	if !errors.As(err, &s) || !s.Retryable() {
		t.Errorf("got error %v, want a retryable *state.StorageError", err)
	}
	row := nextRow(t, db.Feed(FeedStream))
	db.Feed(FeedStream).Done(row.ID)
	if err := db.Streams().Send(t.Context(), e); err != nil {
		t.Errorf("got error %v after one was done", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Streams().Send(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
	e.Data = json.RawMessage(`x`)
	if err := db.Streams().Send(t.Context(), e); err == nil {
		t.Error("data that is no JSON: got no error")
	}
	closeTest(t, db)
	noRow(t, openTest(t, Options{Dir: dir}).Feed(FeedStream))
}

func TestFeedNextWaits(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	f := db.Feed(FeedState)
	if db.Feed("other") != nil {
		t.Error("got a feed of an unknown kind")
	}
	db.SetTriggered(everyKey, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
	setTest(t, db, "s", "k", `1`)
	if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v with a row there, want that of the context", err)
	}
	if row := nextRow(t, f); row.Change == nil {
		t.Errorf("got %+v, want the row that was not handed out", row)
	}
}

// TestManyConsumersOfAFeed demands every row once, and those of a key in
// order, while rows are being written.
func TestManyConsumersOfAFeed(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	f := db.Feed(FeedState)
	db.SetTriggered(everyKey, nil)
	const keys, each = 8, 25
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var mu sync.Mutex
	got := map[string][]string{}
	total := 0
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for {
				row, err := f.Next(ctx)
				if err != nil {
					return
				}
				if row.Deliveries == 1 && strings.HasSuffix(string(row.Change.New), "3") {
					f.Retry(row.ID, 0)
					continue
				}
				mu.Lock()
				got[row.Change.Key.Key] = append(got[row.Change.Key.Key], string(row.Change.New))
				total++
				last := total == keys*each
				mu.Unlock()
				f.Done(row.ID)
				if last {
					cancel()
				}
			}
		})
	}
	want := map[string][]string{}
	for i := range each {
		for k := range keys {
			key := fmt.Sprint("k", k)
			db.State().Submit(t.Context(), []state.Write{state.Set("s", key, json.RawMessage(fmt.Sprint(i+1)))})
			want[key] = append(want[key], fmt.Sprint(i+1))
		}
	}
	running.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestFeedRowsAreKept(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]FeedRow{
		"change": {Kind: FeedState, Change: &state.Change{Key: state.Key{Scope: "s", Key: "k"}, Type: state.Updated, Version: 7,
			Old: json.RawMessage(` {"a" : 1}`), New: json.RawMessage(`"<&>"`), Origin: testOrigin,
			OpErrors: []state.OpError{{OpIndex: 1, Code: "c", Message: "m"}}}},
		"event": {Kind: FeedStream, Event: &stream.Event{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: stream.Create,
			Data: json.RawMessage(`1.0`), At: clock.FromMillis(5), By: "step", Origin: testOrigin}},
	} {
		b, err := encodeFeedRow(row)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeFeedRow(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for i := range b {
			if row, err := decodeFeedRow(b[:i]); err == nil {
				t.Errorf("%s cut to %d bytes: got %+v, want an error", name, i, row)
			}
		}
	}
}
