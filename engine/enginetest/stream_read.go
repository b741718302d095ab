package enginetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

var streamReads = []streamCase{
	{"reads of a log", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		var ids []string
		for i := range 12 {
			ids = append(ids, fmt.Sprintf("e%02d", i)) // five bytes of data each
		}
		appendLog(t, s, -1, ids...)
		for _, tt := range []struct {
			name            string
			from            int64
			limit, maxBytes int
			want            []string
		}{
			{"all", 0, 0, 0, ids},
			{"from below", -1, 0, 0, ids},
			{"from the middle", 7, 0, 0, ids[7:]},
			{"from the tail", 11, 0, 0, ids[11:]},
			{"from behind the tail", 12, 0, 0, []string{}},
			{"from far behind", 1 << 40, 0, 0, []string{}},
			{"limit", 2, 3, 0, ids[2:5]},
			{"limit above", 10, 100, 0, ids[10:]},
			{"bytes", 0, 0, 16, ids[:3]},
			{"bytes to the edge", 0, 0, 15, ids[:3]},
			{"fewer bytes than one event has", 4, 0, 1, ids[4:5]},
			{"limit before bytes", 0, 2, 100, ids[:2]},
			{"bytes before limit", 0, 5, 10, ids[:2]},
		} {
			t.Run(tt.name, func(t *testing.T) {
				items, err := s.Read(t.Context(), "log", "g", tt.from, tt.limit, tt.maxBytes)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]string, len(items))
				for i := range items {
					got[i] = items[i].EventID
				}
				wantStrings(t, "events", got, tt.want)
			})
		}
	}},
	{"a log has no other items of its group", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		appendLog(t, s, -1, "a", "b")
		for _, id := range []string{"g-0000000", "g-000000001", "g-00000000x", "g-0000000x", "g-+0000001", "a", "z", "g-", "h-00000009"} {
			setItem(t, s, "log", "g", id, `1`)
		}
		wantLog(t, s, "a", "b")
		wantSeqs(t, appendLog(t, s, 1, "c"), 2)
		wantLog(t, s, "a", "b", "c")
	}},
	{"a group whose name ends like an event", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		for _, group := range []string{"g", "g-00000000", "g-"} {
			res, err := s.SubmitAppend(t.Context(), stream.Append{Stream: "log", Group: group, Base: -1, Events: logEvents("a", "b")}).Wait(deadline(t))
			if err != nil {
				t.Fatal(err)
			}
			wantSeqs(t, res, 0, 1)
		}
		wantLog(t, s, "a", "b")
	}},
}

// streamMixed is plain writes to the group of a log.
var streamMixed = []streamCase{
	{"a plain create at the next place is an event", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		for i := range 3 {
			w := stream.Write{Key: stream.Key{Stream: "log", Group: "g", Item: fmt.Sprintf("g-%08d", i)}, Kind: state.KindSet, Data: json.RawMessage(`""`), Expect: state.Expect{Absent: true}}
			writeItem(t, s, w)
			_, err := s.Submit(t.Context(), w).Wait(deadline(t))
			wantConflict(t, err, 0)
		}
		wantLog(t, s, "", "", "")
		head, err := s.Head(t.Context(), "log", "g")
		if err != nil || head.Epoch == "" {
			t.Errorf("got %+v, error %v; want an epoch", head, err)
		}
		res := appendLog(t, s, 2, "a")
		wantSeqs(t, res, 3)
		if res.Epoch != head.Epoch {
			t.Errorf("the epoch changed from %s to %s", head.Epoch, res.Epoch)
		}
	}},
	{"a plain create cannot leave a hole", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		appendLog(t, s, -1, "a")
		_, err := s.Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "log", Group: "g", Item: "g-00000002"}, Kind: state.KindSet}).Wait(deadline(t))
		wantInvalid(t, err, "item_id")
		wantLog(t, s, "a")
	}},
	{"a deleted event's number does not come again", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		epoch := appendLog(t, s, -1, "a", "b", "c").Epoch
		deleteItem(t, s, "log", "g", "g-00000002")
		head, err := s.Head(t.Context(), "log", "g")
		if err != nil || head != (stream.Head{Tail: 2, Epoch: epoch}) {
			t.Errorf("got %+v, error %v; want tail 2 and epoch %s", head, err, epoch)
		}
		wantSeqs(t, appendLog(t, s, 2, "d"), 3)
		items, err := s.Read(t.Context(), "log", "g", 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "items", itemsOf(items), []string{"g-00000000", "g-00000001", "g-00000003"})
	}},
	{"a deleted log starts again with another epoch", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		epoch := appendLog(t, s, -1, "a", "b").Epoch
		deleteItem(t, s, "log", "g", "g-00000001")
		deleteItem(t, s, "log", "g", "g-00000000")
		wantLog(t, s)
		again := appendLog(t, s, 1, "c")
		wantSeqs(t, again, 0)
		if again.Epoch == epoch {
			t.Error("the epoch did not change")
		}
		wantLog(t, s, "c")
	}},
}

var streamRaces = []streamCase{
	{"64 writers append without a gap", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		const writers, each = 64, 4
		var running sync.WaitGroup
		seqs := make([][]int64, writers)
		for w := range writers {
			running.Go(func() {
				for i := range each {
					a := stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents(fmt.Sprintf("w%d.%d.a", w, i), fmt.Sprintf("w%d.%d.b", w, i))}
					res, err := s.SubmitAppend(t.Context(), a).Wait(deadline(t))
					if err != nil {
						t.Error(err)
						return
					}
					seqs[w] = append(seqs[w], res.Seqs...)
				}
			})
		}
		running.Wait()
		seen := map[int64]bool{}
		for w, mine := range seqs {
			for i, n := range mine {
				if seen[n] || n < 0 || n >= writers*each*2 {
					t.Errorf("writer %d got the number %d, which is taken or out of range", w, n)
				}
				seen[n] = true
				if i > 0 && mine[i-1] >= n {
					t.Errorf("writer %d got %d after %d", w, n, mine[i-1])
				}
			}
		}
		items, err := s.Read(t.Context(), "log", "g", 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, item := range items {
			if want := fmt.Sprintf("g-%08d", i); item.Item != want {
				t.Fatalf("got item %s at %d, want %s", item.Item, i, want)
			}
		}
		if len(items) != writers*each*2 {
			t.Errorf("got %d events, want %d", len(items), writers*each*2)
		}
	}},
	{"many deliver the same events", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		var running sync.WaitGroup
		for range 16 {
			running.Go(func() {
				a := stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents("a", "b", "c")}
				if _, err := s.SubmitAppend(t.Context(), a).Wait(deadline(t)); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		wantLog(t, s, "a", "b", "c")
	}},
	{"a reader never sees an event before those in front of it", func(t *testing.T, s stream.Store, _ *clock.Fake) {
		const total = 200
		ctx := deadline(t)
		watch := s.Watch(ctx, "log", "g")
		var running sync.WaitGroup
		for w := range 4 {
			running.Go(func() {
				for i := range total / 4 {
					a := stream.Append{Stream: "log", Group: "g", Base: -1, Events: logEvents(fmt.Sprintf("%d.%d", w, i))}
					if _, err := s.SubmitAppend(ctx, a).Wait(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for next := int64(0); next < total; {
			signalled(t, watch)
			for {
				items, err := s.Read(ctx, "log", "g", next, 7, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					if want := fmt.Sprintf("g-%08d", next); item.Item != want {
						t.Fatalf("got item %s, want %s", item.Item, want)
					}
					next++
				}
				if len(items) == 0 {
					break
				}
			}
		}
		running.Wait()
	}},
}
