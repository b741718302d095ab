package enginetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

var streamItems = []streamCase{
	{"set, update and delete an item", func(t *testing.T, s stream.Store, c *clock.Fake) {
		if res := setItem(t, s, "chat", "r1", "m1", `{"n":1}`); res.Old != nil || string(res.New) != `{"n":1}` {
			t.Errorf("got %+v; want no old value", res)
		}
		c.Advance(time.Second)
		if res := setItem(t, s, "chat", "r1", "m1", `{"n":2}`); string(res.Old) != `{"n":1}` || string(res.New) != `{"n":2}` {
			t.Errorf("got old %s, new %s", res.Old, res.New)
		}
		key := stream.Key{Stream: "chat", Group: "r1", Item: "m1"}
		got, ok, err := s.Get(t.Context(), key)
		if err != nil || !ok || !got.At.Equal(c.Now()) {
			t.Errorf("got %+v, ok %v, error %v; want one written at %v", got, ok, err, c.Now())
		}
		got.At = time.Time{}
		if diff := cmp.Diff(stream.Item{Key: key, Data: json.RawMessage(`{"n":2}`)}, got); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
		res := writeItem(t, s, stream.Write{Key: key, Kind: state.KindUpdate, Ops: []state.Op{
			{Type: "increment", Path: json.RawMessage(`"n"`), By: json.RawMessage(`3`)},
			{Type: "append", Path: json.RawMessage(`"n"`), Value: json.RawMessage(`"x"`)},
		}})
		if string(res.Old) != `{"n":2}` || string(res.New) != `{"n":5}` || len(res.OpErrors) != 1 || res.OpErrors[0].OpIndex != 1 {
			t.Errorf("got %+v; want {\"n\":5} and an error of op 1", res)
		}
		if res := deleteItem(t, s, "chat", "r1", "m1"); string(res.Old) != `{"n":5}` || res.New != nil {
			t.Errorf("got %+v; want the old value", res)
		}
		wantNoItem(t, s, "chat", "r1", "m1")
		if res := deleteItem(t, s, "chat", "r1", "m1"); res.Old != nil {
			t.Errorf("got old value %s of an absent item", res.Old)
		}
	}},
	{"an update of an absent item creates it", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		writeItem(t, s, stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindUpdate})
		wantItem(t, s, "s", "g", "i", `{}`)
	}},
	{"conditions", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		for _, tt := range []struct {
			name   string
			exists bool // at version 2
			kind   state.WriteKind
			expect state.Expect
			ok     bool
		}{
			{"create", false, state.KindSet, state.Expect{Absent: true}, true},
			{"create existing", true, state.KindSet, state.Expect{Absent: true}, false},
			{"set at the version", true, state.KindSet, state.Expect{Version: 2}, true},
			{"set at another version", true, state.KindSet, state.Expect{Version: 1}, false},
			{"update at another version", true, state.KindUpdate, state.Expect{Version: 3}, false},
			{"delete at the version", true, state.KindDelete, state.Expect{Version: 2}, true},
			{"delete at another version", true, state.KindDelete, state.Expect{Version: 1}, false},
			{"delete absent at a version", false, state.KindDelete, state.Expect{Version: 1}, false},
			{"check", true, state.KindCheck, state.Expect{Version: 2}, true},
			{"check fails", true, state.KindCheck, state.Expect{Absent: true}, false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				if tt.exists {
					setItem(t, s, "s", "g", tt.name, `"a"`)
					setItem(t, s, "s", "g", tt.name, `"b"`)
				}
				w := stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: tt.name}, Kind: tt.kind, Data: json.RawMessage(`1`), Expect: tt.expect}
				_, err := s.Submit(t.Context(), w).Wait(deadline(t))
				if tt.ok && err != nil {
					t.Errorf("got error %v", err)
				}
				if !tt.ok {
					wantConflict(t, err, 0)
					if tt.exists {
						wantItem(t, s, "s", "g", tt.name, `"b"`)
					}
				}
			})
		}
	}},
	{"lists", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		streams, err := s.Streams(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "streams of an empty store", streams, []string{})
		for _, k := range [][3]string{{"b", "g", "1"}, {"a", "h", "2"}, {"a", "g", "b"}, {"a", "g", "a/1"}, {"a", "g2", "1"}, {"a b", "g", "1"}, {"gone", "g", "1"}} {
			setItem(t, s, k[0], k[1], k[2], `"`+k[2]+`"`)
		}
		deleteItem(t, s, "gone", "g", "1")
		streams, err = s.Streams(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "streams", streams, []string{"a", "a b", "b"})
		groups, err := s.Groups(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "groups", groups, []string{"g", "g2", "h"})
		items, err := s.List(t.Context(), "a", "g")
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "items", itemsOf(items), []string{"a/1", "b"})
		if string(items[1].Data) != `"b"` {
			t.Errorf("got data %s", items[1].Data)
		}
		for _, missing := range [][2]string{{"a", "none"}, {"none", "g"}} {
			if items, err := s.List(t.Context(), missing[0], missing[1]); err != nil || len(items) != 0 {
				t.Errorf("list of %v: got %v, error %v; want none", missing, items, err)
			}
		}
	}},
	{"large items", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		large := text(300 << 10)
		setItem(t, s, "s", "g", "i", large)
		wantItem(t, s, "s", "g", "i", large)
		if items, err := s.List(t.Context(), "s", "g"); err != nil || len(items) != 1 || string(items[0].Data) != large {
			t.Errorf("list: got %d items, error %v; want the item", len(items), err)
		}
		if res := setItem(t, s, "s", "g", "i", `1`); string(res.Old) != large {
			t.Error("the write has another old value")
		}
		_, err := s.Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet, Data: json.RawMessage(text(state.MaxValue + 1))}).Wait(deadline(t))
		wantTooLarge(t, err, state.Key{Scope: "s", Key: "g/i"}, state.MaxValue+1)
		wantItem(t, s, "s", "g", "i", `1`)
	}},
	{"names and values are checked", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		for _, tt := range []struct {
			field string
			write stream.Write
		}{
			{"stream_name", stream.Write{Key: stream.Key{Stream: "", Group: "g", Item: "i"}, Kind: state.KindSet}},
			{"group_id", stream.Write{Key: stream.Key{Stream: "s", Group: "a\x00", Item: "i"}, Kind: state.KindSet}},
			{"item_id", stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "\xff"}, Kind: state.KindSet}},
			{"value", stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet, Data: json.RawMessage(`{`)}},
			{"kind", stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: "other"}},
			{"expect", stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet, Expect: state.Expect{Version: -1}}},
		} {
			_, err := s.Submit(t.Context(), tt.write).Wait(deadline(t))
			wantInvalid(t, err, tt.field)
		}
		_, _, err := s.Get(t.Context(), stream.Key{Stream: "s", Group: "g"})
		wantInvalid(t, err, "item_id")
		_, err = s.List(t.Context(), "s", "")
		wantInvalid(t, err, "group_id")
		_, err = s.Groups(t.Context(), "")
		wantInvalid(t, err, "stream_name")
		_, err = s.Head(t.Context(), "", "g")
		wantInvalid(t, err, "stream_name")
		_, err = s.Read(t.Context(), "s", "", 0, 0, 0)
		wantInvalid(t, err, "group_id")
		wantInvalid(t, s.Send(t.Context(), stream.Event{Key: stream.Key{Stream: "s"}}), "group_id")
	}},
	{"a sent event is not stored", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		e := stream.Event{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: stream.Ephemeral, Data: json.RawMessage(`{"type":"typing","data":{}}`)}
		if err := s.Send(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		wantNoItem(t, s, "s", "g", "i")
		if streams, err := s.Streams(t.Context()); err != nil || len(streams) != 0 {
			t.Errorf("got streams %v, error %v; want none", streams, err)
		}
	}},
	{"plain writes are chained", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		bad := s.Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet, Expect: state.Expect{Version: 1}})
		next := s.Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "j"}, Kind: state.KindSet}, bad)
		log := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents("a")}, next)
		wantSkipped(t, next)
		wantSkipped(t, log)
		wantNoItem(t, s, "s", "g", "j")
		good := s.Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet})
		log = s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents("a")}, good)
		wantApplied(t, log, good)
		wantLog(t, s, "a")
	}},
	{"a watch signals at the start and after writes to the group", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		ctx, cancel := contextWithCancel(t)
		w := s.Watch(ctx, "log", "g")
		signalled(t, w)
		appendLog(t, s, -1, "a")
		signalled(t, w)
		setItem(t, s, "log", "g", "x", `1`)
		signalled(t, w)
		deleteItem(t, s, "log", "g", "x")
		signalled(t, w)
		cancel()
		ended(t, w)
	}},
	{"a copy signals the watchers of its stream", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		w := s.Watch(t.Context(), "copy", "g")
		signalled(t, w)
		wantApplied(t, s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1, Events: []stream.LogEvent{{ID: "a", CopyTo: "copy"}}}))
		signalled(t, w)
	}},
	{"an ended context submits nothing", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		ctx, cancel := contextWithCancel(t)
		cancel()
		p := s.Submit(ctx, stream.Write{Key: stream.Key{Stream: "s", Group: "g", Item: "i"}, Kind: state.KindSet})
		q := s.SubmitAppend(ctx, stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents("a")})
		for _, ticket := range []commit.Ticket{p, q} {
			if err := commit.Wait(deadline(t), ticket); err == nil {
				t.Error("got no error; want that of the context")
			}
		}
		wantNoItem(t, s, "s", "g", "i")
		wantLog(t, s)
	}},
}
