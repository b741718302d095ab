package scripted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// kindsOf is the events of a stream in short: deltas by their text.
func kindsOf(events []agent.LLMEvent) string {
	var out []string
	for _, e := range events {
		switch {
		case e.Delta != "":
			out = append(out, fmt.Sprintf("%q", e.Delta))
		default:
			out = append(out, e.Type)
		}
	}
	return strings.Join(out, " ")
}

func TestF29EveryFailureAtEveryPlace(t *testing.T) {
	t.Parallel()
	const tail = "usage stop done"
	for _, tt := range []struct{ name, rule, want, code string }{
		{"error before any token", "say: a b, fail: {kind: transient}", "start error", ""},
		{"error in the text", "say: a b c, fail: {kind: rate_limited, after: 2}", `start text_start "a" " b" error`, ""},
		{"error in the thinking", "think: a b c, say: d, fail: {kind: rate_limited, after: 1}", `start thinking_start "a" error`, ""},
		{"error in the arguments", "calls: [{arguments: '{\"a\": 1, \"b\": 2}'}], fail: {kind: transient, after: 5}", `start functioncall_start "{\"a\":" error`, ""},
		{"error after all", "say: a, fail: {kind: permanent, after: 100}", `start text_start "a" text_end error`, ""},
		{"cut", "say: a b, fail: {kind: cut, after: 1}", `start text_start "a"`, ""},
		{"cut at once", "fail: {kind: cut}", "start", ""},
		{"garbage", "say: a b, fail: {kind: garbage, after: 1}", `start text_start "a" no_such_event " b" text_end ` + tail, ""},
		{"garbage at the end", "say: a, fail: {kind: garbage, after: 9}", `start text_start "a" text_end no_such_event ` + tail, ""},
		{"length", "say: a b, fail: {kind: length, after: 1}", `start text_start "a" ` + tail, ""},
		{"length in the arguments", "calls: [{arguments: '{\"a\": 1}'}], fail: {kind: length, after: 3}", `start functioncall_start "{\"a\":" ` + tail, ""},
		{"duplicate", "say: a, fail: {kind: duplicate}", `start text_start "a" text_end ` + tail + " done", ""},
		{"duplicate after all", "say: a, fail: {kind: duplicate, after: 9}", `start text_start "a" text_end ` + tail + " done", ""},
		{"refused", "say: a, fail: {kind: refused, after: 1}", "", "invocation_failed"},
		{"no credential", "fail: {kind: no_credential}", "", "credential_missing"},
		{"kind that is none after all", "say: a, fail: {kind: '$0y'}", "start error", ""},
		{"nothing to say", "think: ''", "start " + tail, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "rules:\n  - {when: x, "+tt.rule+"}\n")
			for range 2 { // a failure without times happens every time
				events, _, err := r.stream(t.Context(), request(agent.User("x", 1)))
				if diff := cmp.Diff(tt.want, kindsOf(events)); diff != "" {
					t.Error(diff)
				}
				if tt.code != "" && bus.Code(err) != tt.code || tt.code == "" && err != nil {
					t.Errorf("error %v, want code %q", err, tt.code)
				}
			}
		})
	}
}

func TestFailuresTellWhatTheyAre(t *testing.T) {
	t.Parallel()
	m := newRig(t, "rules:\n  - {when: '^(.+)$', say: a b, fail: {kind: transient, after: 1, message: 'why $1'}}\n").final(request(agent.User("not", 1)))
	if m.StopReason != agent.StopError || *m.ErrorMessage != "why not" || *m.ErrorKind != agent.ErrTransient || m.Content[0].Text != "a" {
		t.Errorf("%+v", m)
	}
	m = newRig(t, "rules:\n  - {when: x, fail: {kind: '$1'}}\n").final(request(agent.User("x", 1)))
	if *m.ErrorKind != agent.ErrPermanent || *m.ErrorMessage != "the scripted model fails with permanent" {
		t.Errorf("%+v", m)
	}
	m = newRig(t, "rules:\n  - {when: x, calls: [{arguments: '{\"a\": 1}', id: p1}], fail: {kind: length, after: 3}}\n").final(request(agent.User("x", 1)))
	if m.StopReason != agent.StopLength || len(m.Calls()) != 1 || string(m.Calls()[0].Arguments) != "null" || m.Calls()[0].ProviderCallID != "p1" {
		t.Errorf("%+v", m)
	}
}

// A reader that leaves at any event ends the stream there.
func TestStreamEndsWhereItsReaderLeaves(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for _, prompt := range []string{"what time is it", "think about a b c", "speak garbage", "end twice", "fail halfway", "stop at the limit", "fail in a call", "hello there"} {
		r := newRig(t, strings.ReplaceAll(string(builtin), "delay: 10ms", "delay: 0s"))
		for at := 0; ; at++ {
			n := 0
			err := r.provider.stream(t.Context(), request(agent.User(prompt, 1)), func(agent.LLMEvent) error {
				if n++; n > at {
					return gone
				}
				return nil
			})
			if n <= at {
				if err != nil || at < 2 {
					t.Errorf("%s: %d events, %v", prompt, n, err)
				}
				break
			}
			if !errors.Is(err, gone) || n != at+1 {
				t.Errorf("%s: after %d events %d were sent, error %v", prompt, at, n, err)
			}
		}
	}
}

func TestSilenceLastsAsLongAsTheCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t, "rules:\n  - {when: x, say: a b, fail: {kind: silence, after: 1}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan struct{}, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- r.provider.stream(ctx, request(agent.User("x", 1)), func(e agent.LLMEvent) error {
			if e.Delta != "" {
				heard <- struct{}{}
			}
			return nil
		})
	}()
	<-heard
	select {
	case err := <-ended:
		t.Fatalf("silence ended by itself: %v", err)
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(heard) != 0 {
		t.Error("something was said after the silence began")
	}
}

func TestSlowStreamWaitsForTheClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, "delay: 1h\nrules:\n  - {when: x, think: t, say: a b c, delay: 3s}\n")
	said := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- r.provider.stream(t.Context(), request(agent.User("x", 1)), func(e agent.LLMEvent) error {
			if e.Delta != "" {
				said <- e.Delta
			}
			return nil
		})
	}()
	for _, want := range []string{"t", "a", " b", " c"} {
		r.clock.BlockUntil(1)
		r.clock.Advance(3*time.Second - 1)
		if len(said) != 0 {
			t.Error("a piece came too early")
		}
		r.clock.Advance(1)
		if got := <-said; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r.clock.Waiting() != 0 {
		t.Error("a timer was left behind")
	}
}

func TestPauseEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	for _, delay := range []string{"1h", "0s"} {
		r := newRig(t, "delay: "+delay+"\nrules: []\n")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.provider.stream(ctx, request(agent.User("x", 1)), func(agent.LLMEvent) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("delay %s: error %v", delay, err)
		}
		if r.clock.Waiting() != 0 {
			t.Error("a timer was left behind")
		}
	}
}

// Requests that differ in their run or their messages are counted apart, and
// callers at once get as many failures as are due.
func TestFailuresAreCountedByRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, "rules:\n  - {when: x, say: ok, fail: {kind: transient, times: 3}}\n")
	ask := func(run string, at int64) agent.StopReason {
		req := request(agent.User("x", at))
		req.ResolutionKey = run
		return r.final(req).StopReason
	}
	if ask("a", 1) != agent.StopError || ask("b", 1) != agent.StopError || ask("a", 2) != agent.StopError {
		t.Error("a first try worked")
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[agent.StopReason]int{}
	for range 8 {
		wg.Go(func() {
			reason := ask("c", 1)
			mu.Lock()
			defer mu.Unlock()
			got[reason]++
		})
	}
	wg.Wait()
	if got[agent.StopError] != 6 || got[agent.StopEnd] != 2 {
		t.Errorf("outcomes %v, want 3 failures for each success", got)
	}
}

func TestFailuresAreForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	var counted tries
	f := &Fail{Kind: failCut, Times: 1}
	for i := range int64(maxTries) + 5 {
		if counted.due(f, request(agent.User("x", i))) == nil {
			t.Fatalf("request %d did not fail", i)
		}
	}
	if len(counted.n) > maxTries {
		t.Errorf("%d requests are remembered", len(counted.n))
	}
}

func TestUsageGrowsWithWhatIsSaidAndAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, "rules: []\n")
	short := r.final(request(agent.User("hi", 1))).Usage
	req := request(agent.User(strings.Repeat("word ", 100), 1))
	req.SystemPrompt = ptr(strings.Repeat("s", 400))
	long := r.final(req).Usage
	if *short.Input < 1 || *long.Input < *short.Input+200 || *short.Output < 1 || *long.Output < *short.Output+100 {
		t.Errorf("usage %d/%d, then %d/%d", *short.Input, *short.Output, *long.Input, *long.Output)
	}
}

func FuzzPieces(f *testing.F) {
	for _, s := range []string{"", " ", "a b", strings.Repeat("é", 200), strings.Repeat("😀", 99) + " x", strings.Repeat("\x80", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		all := pieces(s)
		if strings.Join(all, "") != s {
			t.Fatalf("%q became %q", s, all)
		}
		for _, p := range all {
			if p == "" || len(p) > maxPiece {
				t.Fatalf("%q has the piece %q", s, p)
			}
			if strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(p, "") != p {
				t.Fatalf("%q has the broken piece %q", s, p)
			}
		}
	})
}
