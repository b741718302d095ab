package enginetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

var streamLogs = []streamCase{
	{"an empty log", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		head, err := s.Head(t.Context(), "log", "g")
		if err != nil || head != (stream.Head{Tail: -1}) {
			t.Errorf("got %+v, error %v; want tail -1 and no epoch", head, err)
		}
		wantLog(t, s)
	}},
	{"events are numbered from 0 without a gap", func(t *testing.T, s stream.Store, c *clock.Fake) {
		first := appendLog(t, s, -1, "a")
		wantSeqs(t, first, 0)
		second := appendLog(t, s, 0, "b", "c", "d")
		wantSeqs(t, second, 1, 2, 3)
		if first.Epoch != second.Epoch {
			t.Errorf("the epoch changed from %s to %s", first.Epoch, second.Epoch)
		}
		items := wantLog(t, s, "a", "b", "c", "d")
		want := stream.Item{Key: stream.Key{Stream: "log", Group: "g", Item: "g-00000002"}, Data: json.RawMessage(`"c"`), EventID: "c", At: items[2].At}
		if diff := cmp.Diff(want, items[2]); diff != "" || !items[2].At.Equal(c.Now()) {
			t.Errorf("item at %v (-want +got):\n%s", items[2].At, diff)
		}
		head, err := s.Head(t.Context(), "log", "g")
		if err != nil || head != (stream.Head{Tail: 3, Epoch: first.Epoch}) {
			t.Errorf("got %+v, error %v; want tail 3 and epoch %s", head, err, first.Epoch)
		}
	}},
	{"logs are their own", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		a := appendLog(t, s, -1, "a")
		other, err := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g2", Base: -1, Events: logEvents("a", "b")}).Wait(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, other, 0, 1)
		if other.Epoch == a.Epoch {
			t.Error("two logs share an epoch")
		}
		wantLog(t, s, "a")
	}},
	{"a redelivery stores nothing again", func(t *testing.T, s stream.Store, c *clock.Fake) {
		first := appendLog(t, s, -1, "a", "b")
		at := c.Now()
		c.Advance(time.Second)
		again := appendLog(t, s, -1, "a", "b")
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("results (-first +second):\n%s", diff)
		}
		if items := wantLog(t, s, "a", "b"); !items[0].At.Equal(at) {
			t.Errorf("got an event at %v, want it unchanged at %v", items[0].At, at)
		}
	}},
	{"a redelivery stores what is missing", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		appendLog(t, s, -1, "a", "b")
		wantSeqs(t, appendLog(t, s, -1, "a", "b", "c"), 0, 1, 2)
		wantSeqs(t, appendLog(t, s, -1, "b", "x", "c"), 1, 3, 2)
		wantLog(t, s, "a", "b", "c", "x")
	}},
	{"another writer came between", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		appendLog(t, s, -1, "a")
		appendLog(t, s, 0, "other")
		wantSeqs(t, appendLog(t, s, 0, "b", "c"), 2, 3)
		wantSeqs(t, appendLog(t, s, 0, "b", "c"), 2, 3)
		wantLog(t, s, "a", "other", "b", "c")
	}},
	{"ids are compared behind the base only", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		appendLog(t, s, -1, "a", "b")
		wantSeqs(t, appendLog(t, s, 1, "b"), 2)
		wantSeqs(t, appendLog(t, s, 1, "b"), 2)
		wantSeqs(t, appendLog(t, s, 0, "b"), 1)
		wantLog(t, s, "a", "b", "b")
	}},
	{"a base beyond the tail compares nothing", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		wantSeqs(t, appendLog(t, s, 40, "a"), 0)
		wantSeqs(t, appendLog(t, s, 40, "b"), 1)
		wantLog(t, s, "a", "b")
	}},
	{"an id twice in one append is stored once", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		wantSeqs(t, appendLog(t, s, -1, "a", "b", "a"), 0, 1, 0)
		wantLog(t, s, "a", "b")
	}},
	{"no events", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		res, err := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1}).Wait(deadline(t))
		if err != nil || len(res.Seqs) != 0 || res.Epoch != "" {
			t.Errorf("got %+v, error %v; want nothing and no log", res, err)
		}
		epoch := appendLog(t, s, -1, "a").Epoch
		res, err = s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1}).Wait(deadline(t))
		if err != nil || res.Epoch != epoch {
			t.Errorf("got %+v, error %v; want the epoch %s", res, err, epoch)
		}
	}},
	{"who wrote is kept", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		wantApplied(t, s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1, By: "step", Events: logEvents("a")}))
		appendLog(t, s, 0, "b")
		items := wantLog(t, s, "a", "b")
		if items[0].By != "step" || items[1].By != "" {
			t.Errorf("got by %q and %q, want step and none", items[0].By, items[1].By)
		}
	}},
	{"a copy has the same item id and data", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		a := stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents("a", "end", "b")}
		a.Events[1].CopyTo = "ends"
		for range 2 {
			wantApplied(t, s.SubmitAppend(t.Context(), a))
		}
		wantLog(t, s, "a", "end", "b")
		items, err := s.List(t.Context(), "ends", "g")
		if err != nil || len(items) != 1 || items[0].Item != "g-00000001" || string(items[0].Data) != `"end"` {
			t.Errorf("got %+v, error %v; want item g-00000001", items, err)
		}
		if head, err := s.Head(t.Context(), "ends", "g"); err != nil || head.Epoch != "" {
			t.Errorf("got %+v, error %v; want no log of copies", head, err)
		}
	}},
	{"a failing event fails all", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		bad := logEvents("a", "b")
		bad[1].Data = json.RawMessage(text(state.MaxValue + 1))
		_, err := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: "g", Base: -1, Events: bad}).Wait(deadline(t))
		wantTooLarge(t, err, state.Key{Scope: "log", Key: "g/b"}, state.MaxValue+1)
		wantLog(t, s)
	}},
	{"appends are checked", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		for _, tt := range []struct {
			field string
			a     stream.Append
		}{
			{"stream_name", stream.Append{Group: "g", Events: logEvents("a")}},
			{"group_id", stream.Append{Stream: "log", Events: logEvents("a")}},
			{"event id", stream.Append{Stream: "log", Group: "g", Events: logEvents("a", "")}},
			{"value", stream.Append{Stream: "log", Group: "g", Events: []stream.LogEvent{{ID: "a", Data: json.RawMessage(`x`)}}}},
			{"copy_to", stream.Append{Stream: "log", Group: "g", Events: []stream.LogEvent{{ID: "a", CopyTo: "log"}}}},
			{"copy_to", stream.Append{Stream: "log", Group: "g", Events: []stream.LogEvent{{ID: "a", CopyTo: "a\x00b"}}}},
			{"by", stream.Append{Stream: "log", Group: "g", By: text(1025), Events: logEvents("a")}},
		} {
			_, err := s.SubmitAppend(t.Context(), tt.a).Wait(deadline(t))
			wantInvalid(t, err, tt.field)
		}
		wantLog(t, s)
	}},
	{"large events, and their redelivery", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		data := text(300 << 10)
		a := stream.Append{Stream: "log", Group: "g", Base: -1, Events: []stream.LogEvent{{ID: "a", Data: json.RawMessage(data), CopyTo: "copy"}}}
		for range 2 {
			res, err := s.SubmitAppend(t.Context(), a).Wait(deadline(t))
			if err != nil {
				t.Fatal(err)
			}
			wantSeqs(t, res, 0)
		}
		wantItem(t, s, "log", "g", "g-00000000", data)
		wantItem(t, s, "copy", "g", "g-00000000", data)
		if items, err := s.Read(t.Context(), "log", "g", 0, 0, 0); err != nil || len(items) != 1 || string(items[0].Data) != data {
			t.Errorf("read: got %d events, error %v; want the one", len(items), err)
		}
	}},
}
