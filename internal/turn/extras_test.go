package turn

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func TestF32LargeResults(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{"ascii": "x", "four bytes": "😀"} {
		for _, size := range []int{32<<10 - 1, 64 << 10, 64<<10 + 8, 400<<10 + 4, 1<<20 + 4} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				whole := strings.Repeat(unit, size/len(unit))
				w.bus.on("ok::big", answers(whole))
				w.model.plays(wants(want("ok::big", nil)), says("done"))
				w.start("s1", "go")
				w.ended("s1")
				res := w.results("s1")[0]
				got := res.Content[0].Text
				if len(whole) <= 64<<10 {
					if got != whole {
						t.Errorf("a result of %d bytes was changed", len(whole))
					}
					return
				}
				if len(got) > 64<<10 || len(got) < 64<<10-4 || !utf8.ValidString(got) || !strings.HasPrefix(whole, got) {
					t.Errorf("cut to %d bytes", len(got))
				}
				var d struct {
					Blob struct {
						Ref struct {
							ID   string `json:"id"`
							Size int    `json:"size"`
						} `json:"$blob"`
					} `json:"blob"`
				}
				w.check(json.Unmarshal(res.Details, &d))
				r, err := w.db.Blobs().Open(t.Context(), d.Blob.Ref.ID, 0)
				w.check(err)
				kept, err := io.ReadAll(r)
				w.check(err)
				w.check(r.Close())
				if string(kept) != whole || d.Blob.Ref.Size != len(whole) || !strings.Contains(text(res), "blob::read") {
					t.Errorf("the blob has %d bytes", len(kept))
				}
				if len(res.Details) > 16<<10 {
					t.Errorf("details of %d bytes", len(res.Details))
				}
			})
		}
	}
}

func TestLargeStructuredResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) { c.ResultTextLimit = 1024 }))
	w.bus.on("ok::big", answers(map[string]any{
		"content": []agent.Block{
			agent.Text(strings.Repeat("a", 800)), {Type: agent.BlockImage, MIME: "image/png", Data: "AAAA"}, agent.Text(strings.Repeat("b", 800)), agent.Text("c"),
			{Type: agent.BlockImage, MIME: "image/png", Data: strings.Repeat("A", 300<<10)},
		},
		"details": map[string]string{"kept": "yes"},
	}))
	w.model.plays(wants(want("ok::big", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	res := w.results("s1")[0]
	var kinds []string
	for _, b := range res.Content {
		kinds = append(kinds, b.Type)
	}
	if diff := cmp.Diff([]string{"text", "image", "text", "text"}, kinds); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if len(res.Content[2].Text) != 224 || !strings.Contains(string(res.Details), `"kept":"yes"`) {
		t.Errorf("second text of %d bytes, details %s", len(res.Content[2].Text), res.Details)
	}
}

// Two refs to one end: the second cannot be opened, and no key gets out.
func TestReplyWithChannelTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("ok::read", func(ctx context.Context, _ *bus.Call) (any, error) {
		wr, rd, err := w.channels.Create(ctx, 0)
		if err != nil {
			return nil, err
		}
		out, err := w.channels.OpenWriter(wr)
		if err != nil {
			return nil, err
		}
		return map[string]any{"content": rd, "more": []any{rd}, "write": wr}, out.Close()
	})
	w.model.plays(wants(want("ok::read", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	res := w.results("s1")[0]
	if !res.IsError || !strings.Contains(text(res), "could not be read") || strings.Contains(string(encode(res)), "access_key") {
		t.Errorf("result %s", encode(res))
	}
}

func TestReplyWithOneChannel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ data, want string }{
		"text":   {"file content", "file content"},
		"binary": {"a\xff\xfe", "<binary 3 bytes>"},
		"long":   {strings.Repeat("é", maxDrain), strings.Repeat("é", maxDrain/2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withConfig(func(c *Config) { c.ResultTextLimit = 512 << 10 }))
			w.bus.on("ok::read", func(ctx context.Context, _ *bus.Call) (any, error) {
				wr, rd, err := w.channels.Create(ctx, 0)
				if err != nil {
					return nil, err
				}
				out, err := w.channels.OpenWriter(wr)
				if err != nil {
					return nil, err
				}
				if err := out.Write(ctx, channel.Message{Data: []byte(tc.data), Binary: true}); err != nil {
					return nil, err
				}
				return map[string]any{"content": rd, "size": 12}, out.Close()
			})
			w.model.plays(wants(want("ok::read", nil)), says("done"))
			w.start("s1", "go")
			w.ended("s1")
			res := w.results("s1")[0]
			if got := res.Content[0].Text; !strings.HasPrefix(tc.want, got[:min(len(got), 100)]) || (name != "long" && got != tc.want) {
				t.Errorf("got %d bytes", len(got))
			}
			if strings.Contains(string(encode(res)), "access_key") {
				t.Error("the model gets the key of a channel")
			}
			if name == "text" && !strings.Contains(string(res.Details), `"size":12`) {
				t.Errorf("details %s", res.Details)
			}
		})
	}
}

func TestSensitiveResultIsNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.onMeta("ok::key", bus.Meta{Sensitive: true}, bus.KindBuiltin, answers("sk-CANARY-7f3a"))
	w.model.plays(wants(want("ok::key", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	if got := string(encode(w.results("s1"))) + string(encode(w.events("s1"))); strings.Contains(got, "CANARY") {
		t.Error("the result was stored")
	}
}

func TestBlobsOfOtherSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, err := w.db.Blobs().Put(t.Context(), "s1", "text/plain", strings.NewReader("mine"))
	w.check(err)
	other, err := w.db.Blobs().Put(t.Context(), "s2", "text/plain", strings.NewReader("other"))
	w.check(err)
	w.bus.on("blob::read", answers("bytes"))
	w.model.plays(wants(
		want("blob::read", map[string]string{"id": mine.ID}), want("blob::read", map[string]string{"id": other.ID}),
		want("blob::read", map[string]string{"id": "ghost"}), want("blob::read", nil),
	), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	res := w.results("s1")
	for i, wantErr := range []bool{false, true, true, false} {
		if res[i].IsError != wantErr {
			t.Errorf("read %d: %s", i, res[i].Details)
		}
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("word ", 20_000) // about 25,000 tokens
	for _, tc := range []struct {
		name    string
		context int64
		compact handler
		state   step.State
		code    string
		calls   int
	}{
		{"fits", 200_000, failing("invocation_failed", "not asked"), step.Stopped, "", 1},
		{"unknown context", 0, failing("invocation_failed", "not asked"), step.Stopped, "", 1},
		{"overflow", 30_000, answers(map[string]string{"status": "overflow", "message": "too long"}), step.Failed, "context overflow: too long", 0},
		{"empty goes on", 30_000, answers(map[string]string{"status": "empty"}), step.Stopped, "", 1},
		{"error goes on", 30_000, failing("invocation_failed", "boom"), step.Stopped, "", 1},
		{"nobody compacts, may fit", 30_000, nil, step.Stopped, "", 1},
		{"nobody compacts, cannot fit", 21_000, nil, step.Failed, "no worker can compact it", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.bus.on("models::get", answers(map[string]any{"context_window": tc.context, "max_output_tokens": 1000}))
			if tc.compact != nil {
				w.bus.on("context-compaction::compact_now", tc.compact)
			}
			w.start("s1", big)
			rec := w.ended("s1")
			if rec.State != tc.state || w.model.calls() != tc.calls {
				t.Errorf("state %s, asked %d times", rec.State, w.model.calls())
			}
			if tc.code != "" && !strings.Contains(rec.Error.Message, tc.code) {
				t.Errorf("error %+v", rec.Error)
			}
		})
	}
}

func TestPreflightCompacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("models::get", answers(map[string]any{"context_window": 30_000}))
	busy := 1
	w.bus.on("context-compaction::compact_now", func(_ context.Context, c *bus.Call) (any, error) {
		if busy > 0 {
			busy--
			return map[string]string{"status": "busy"}, nil
		}
		var r struct {
			Last  string `json:"last_user_message_id"`
			Model struct {
				ID, ProviderID string
				Limit          agent.ModelLimit
			} `json:"model"`
			Projected int64 `json:"projected_tokens"`
		}
		if err := bus.Decode(c.Data, &r); err != nil {
			return nil, err
		}
		path := w.session.path("s1")
		if r.Last != path[len(path)-1].EntryID || r.Model.ProviderID != "test" || r.Model.Limit.Context != 30_000 || r.Projected < 10_000 {
			t.Errorf("asked with %+v", r)
		}
		w.session.mu.Lock()
		defer w.session.mu.Unlock()
		w.session.paths["s1"] = []pathEntry{{"c1", agent.User("summary", 1)}, {"c1-continue", agent.User("continue", 1)}}
		return map[string]string{"status": "ok"}, nil
	})
	w.start("s1", strings.Repeat("word ", 20_000))
	w.advanceToEnd()
	if got := w.model.request(0).Messages; len(got) != 2 || text(got[1]) != "continue" {
		t.Errorf("the model gets %d messages", len(got))
	}
	path := w.session.path("s1")
	if len(path) != 3 || len(w.session.refusals) != 0 {
		t.Errorf("transcript of %d entries, refused %v", len(path), w.session.refusals)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	priced := answers(map[string]any{"context_window": 1000000, "max_output_tokens": 1000, "pricing": map[string]float64{"input_per_1m": 3, "output_per_1m": 15}})
	for _, tc := range []struct {
		name    string
		reserve handler
		stopped string
	}{
		{"allowed", answers(map[string]any{"allowed": true}), ""},
		{"refused", answers(map[string]any{"allowed": false, "refused_by": "b1"}), "loop stopped: budget b1"},
		{"refused by nobody", answers(map[string]any{"allowed": false}), "loop stopped: budget unknown"},
		{"cannot be read", failing("STORAGE_ERROR", "down"), "loop stopped: budget unavailable"},
		{"nonsense", answers("yes"), "loop stopped: budget unavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.bus.on("models::get", priced)
			w.bus.on("budget::reserve", tc.reserve)
			w.start("s1", "go", map[string]any{"agent_id": "a1"})
			w.ended("s1")
			path := w.session.path("s1")
			last := text(path[len(path)-1].Message)
			if tc.stopped != "" && (last != tc.stopped || w.model.calls() != 0) {
				t.Errorf("last message %q, asked %d times", last, w.model.calls())
			}
			var r struct {
				ID   string  `json:"reservation_id"`
				Cost float64 `json:"estimated_cost_usd"`
				TTL  int64   `json:"ttl_ms"`
				A    string  `json:"agent_id"`
			}
			w.check(json.Unmarshal(w.bus.seen("budget::reserve")[0].Data, &r))
			if r.Cost < 0.015 || r.Cost > 0.03 || r.TTL != 900_000 || r.A != "a1" || r.ID != step.ReservationID(w.record("s1").Run, 1, 0) {
				t.Errorf("reserved %+v", r)
			}
			if tc.stopped == "" && w.model.request(0).ReservationID != r.ID {
				t.Errorf("the provider gets reservation %q", w.model.request(0).ReservationID)
			}
			if n := len(w.bus.seen("budget::release")) + len(w.bus.seen("budget::settle")); n != 0 {
				t.Errorf("%d reservations closed by the turn", n)
			}
		})
	}
}

func TestBudgetIsClosed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		reply   modelReply
		settled int
		release int
	}{
		{"failed unseen", fails(agent.ErrPermanent, "no", 0, ""), 0, 1},
		{"failed after text", fails(agent.ErrPermanent, "no", 0, "text"), 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.bus.on("budget::reserve", answers(map[string]any{"allowed": true}))
			w.bus.on("budget::settle", answers(nil))
			w.bus.on("budget::release", answers(nil))
			w.model.plays(tc.reply)
			w.start("s1", "go")
			w.ended("s1")
			if a, b := len(w.bus.seen("budget::settle")), len(w.bus.seen("budget::release")); a != tc.settled || b != tc.release {
				t.Errorf("settled %d, released %d", a, b)
			}
		})
	}
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("sandbox::create", answers(map[string]string{"sandbox_id": "sb1", "image": "node"}))
	w.bus.on("sandbox::stop", answers(nil))
	w.model.plays(says("hi"))
	w.start("s1", "go", map[string]any{"sandbox": map[string]any{"image": "node"}})
	w.ended("s1")
	if got := string(w.bus.seen("sandbox::create")[0].Data); got != `{"idle_timeout_secs":300,"image":"node"}` {
		t.Errorf("made with %s", got)
	}
	if got := w.bus.seen("sandbox::stop"); len(got) != 1 || string(got[0].Data) != `{"sandbox_id":"sb1"}` {
		t.Errorf("stopped %v", got)
	}
	w.bus.on("sandbox::create", failing("S400", "no room"))
	w.start("s1", "again", map[string]any{"sandbox": map[string]any{"idle_timeout_secs": 7}})
	if rec := w.ended("s1"); rec.State != step.Failed || !strings.Contains(rec.Error.Message, "no room") {
		t.Errorf("state %s, error %+v", rec.State, rec.Error)
	}
	if got := string(w.bus.seen("sandbox::create")[1].Data); got != `{"idle_timeout_secs":7,"image":"python"}` {
		t.Errorf("made with %s", got)
	}
}
