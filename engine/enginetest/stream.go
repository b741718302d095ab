package enginetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// NewStream makes an empty store for a test.
type NewStream func(t *testing.T, c clock.Clock) stream.Store

type streamCase struct {
	name string
	run  func(t *testing.T, s stream.Store, c *clock.Fake)
}

// RunStream is the suite of stream.Store.
func RunStream(t *testing.T, open NewStream) {
	t.Helper()
	for _, cases := range [][]streamCase{streamItems, streamLogs, streamReads, streamMixed, streamRaces} {
		for _, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				c := clock.NewFake(time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC))
				tt.run(t, open(t, c), c)
			})
		}
	}
}

// setItem makes a plain write that must succeed.
func setItem(t *testing.T, s stream.Store, name, group, item, data string) stream.Result {
	t.Helper()
	return writeItem(t, s, stream.Write{Key: stream.Key{Stream: name, Group: group, Item: item}, Kind: state.KindSet, Data: json.RawMessage(data)})
}

func deleteItem(t *testing.T, s stream.Store, name, group, item string) stream.Result {
	t.Helper()
	return writeItem(t, s, stream.Write{Key: stream.Key{Stream: name, Group: group, Item: item}, Kind: state.KindDelete})
}

func writeItem(t *testing.T, s stream.Store, w stream.Write) stream.Result {
	t.Helper()
	res, err := s.Submit(t.Context(), w).Wait(deadline(t))
	if err != nil {
		t.Fatalf("%s %v: %v", w.Kind, w.Key, err)
	}
	return res
}

func wantItem(t *testing.T, s stream.Store, name, group, item, data string) {
	t.Helper()
	got, ok, err := s.Get(t.Context(), stream.Key{Stream: name, Group: group, Item: item})
	if err != nil || !ok || string(got.Data) != data {
		t.Errorf("get %s/%s/%s: got %s, ok %v, error %v; want %s", name, group, item, got.Data, ok, err, data)
	}
}

func wantNoItem(t *testing.T, s stream.Store, name, group, item string) {
	t.Helper()
	if got, ok, err := s.Get(t.Context(), stream.Key{Stream: name, Group: group, Item: item}); ok || err != nil {
		t.Errorf("get %s/%s/%s: got %s, ok %v, error %v; want none", name, group, item, got.Data, ok, err)
	}
}

// logEvents makes events whose data is their id.
func logEvents(ids ...string) []stream.LogEvent {
	events := make([]stream.LogEvent, len(ids))
	for i, id := range ids {
		events[i] = stream.LogEvent{ID: id, Data: json.RawMessage(`"` + id + `"`)}
	}
	return events
}

// appendLog appends to the log "g" of stream "log"; it must succeed.
func appendLog(t *testing.T, s stream.Store, base int64, ids ...string) stream.Appended {
	t.Helper()
	res, err := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: base, Events: logEvents(ids...)}).Wait(deadline(t))
	if err != nil {
		t.Fatalf("append %v: %v", ids, err)
	}
	return res
}

func wantSeqs(t *testing.T, got stream.Appended, want ...int64) {
	t.Helper()
	if diff := cmp.Diff(want, got.Seqs); diff != "" {
		t.Errorf("sequence numbers (-want +got):\n%s", diff)
	}
	if got.Epoch == "" {
		t.Error("got no epoch")
	}
}

// wantLog demands that the log "g" of stream "log" has these events and no
// others, without a gap.
func wantLog(t *testing.T, s stream.Store, ids ...string) []stream.Item {
	t.Helper()
	items, err := s.Read(t.Context(), "log", "g", 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(items))
	for i, item := range items {
		got[i] = item.EventID
		if want := fmt.Sprintf("g-%08d", i); item.Item != want || item.Stream != "log" || item.Group != "g" {
			t.Errorf("event %d is %v, want item %s", i, item.Key, want)
		}
		if string(item.Data) != `"`+item.EventID+`"` {
			t.Errorf("event %s has the data %s", item.EventID, item.Data)
		}
	}
	wantStrings(t, "events", got, ids)
	head, err := s.Head(t.Context(), "log", "g")
	if err != nil || head.Tail != int64(len(ids))-1 {
		t.Errorf("got head %+v, error %v; want tail %d", head, err, len(ids)-1)
	}
	return items
}

func itemsOf(items []stream.Item) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.Item
	}
	return ids
}
