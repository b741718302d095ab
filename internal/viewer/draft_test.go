package viewer

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
)

func TestPageTakesWholeRunesWithinTheLimit(t *testing.T) {
	t.Parallel()
	family := "\U0001F468\u200d\U0001F469\u200d\U0001F467" // one sign of five runes
	for name, text := range map[string]string{
		"ascii":       strings.Repeat("a", 3*PageBytes+1),
		"one page":    strings.Repeat("a", PageBytes),
		"two bytes":   strings.Repeat("é", PageBytes),
		"four bytes":  "x" + strings.Repeat("😀", PageBytes),
		"joined":      strings.Repeat(family, PageBytes/4),
		"escaped":     strings.Repeat("\"\\\n\x01\u2028<", PageBytes/4),
		"broken utf8": strings.Repeat("a\xff", PageBytes),
		"empty":       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPages(t, text)
		})
	}
}

func FuzzPage(f *testing.F) {
	for _, s := range []string{"", "abc", "é😀", "\xff\xfe", "\"\\\n", "\u2028\x00"} {
		f.Add(s, uint16(9000))
	}
	f.Fuzz(func(t *testing.T, s string, times uint16) { checkPages(t, strings.Repeat(s, int(times)%20000)) })
}

func checkPages(t *testing.T, text string) {
	t.Helper()
	for rest := []byte(text); len(rest) > 0; {
		n, runes := page(rest)
		if n <= 0 || n > len(rest) || runes != utf8.RuneCount(rest[:n]) {
			t.Fatalf("page takes %d of %d bytes, says %d runes", n, len(rest), runes)
		}
		if utf8.ValidString(text) && !utf8.Valid(rest[:n]) {
			t.Fatal("a rune was cut")
		}
		b, err := json.Marshal(string(rest[:n]))
		if err != nil {
			t.Fatal(err)
		}
		// Marshal writes <, > and & longer than what goes over the wire.
		wire := len(b) - 2 - 5*strings.Count(string(rest[:n]), "<") - 5*strings.Count(string(rest[:n]), ">") - 5*strings.Count(string(rest[:n]), "&")
		if wire > PageBytes && runes > 1 {
			t.Fatalf("a page has %d bytes as JSON, at most %d are allowed", wire, PageBytes)
		}
		if n < len(rest) && wire < PageBytes-6 {
			t.Fatalf("a page of %d bytes could have been longer", wire)
		}
		rest = rest[n:]
	}
}

// reader rebuilds blocks from what a viewer gets.
type reader struct {
	t      *testing.T
	blocks map[int]string
	runes  map[int]int
	kinds  map[int]string
	calls  map[int]string
	rev    int64
	more   bool
	seen   []string // types
}

func newReader(t *testing.T) *reader {
	return &reader{t: t, blocks: map[int]string{}, runes: map[int]int{}, kinds: map[int]string{}, calls: map[int]string{}}
}

func (r *reader) take(u agent.MessageUpdate) {
	r.t.Helper()
	if u.Rev < r.rev {
		r.t.Fatalf("rev went from %d to %d", r.rev, u.Rev)
	}
	if u.LLMEvent.Partial != nil {
		r.t.Fatal("an update carries the message so far")
	}
	r.rev = u.Rev
	e := u.LLMEvent
	r.seen = append(r.seen, e.Type)
	kind, text := kinds[e.Type], e.Delta
	if e.Type == agent.LLMSnapshot {
		kind, text = e.Kind, e.Text
		if e.FunctionID != "" {
			r.calls[u.Block] = e.FunctionID
		}
		r.more = e.More
	} else if r.more {
		r.t.Fatalf("%s came where more of a snapshot was promised", e.Type)
	}
	if e.Type == agent.LLMFunctionCallStart {
		r.calls[u.Block] = e.FunctionID
	}
	if kind == "" || text == "" {
		return
	}
	if at := r.runes[u.Block]; at != u.Offset {
		r.t.Fatalf("%s %q at offset %d of block %d, which has %d runes", e.Type, text, u.Offset, u.Block, at)
	}
	r.blocks[u.Block] += text
	r.runes[u.Block] += utf8.RuneCountInString(text)
	r.kinds[u.Block] = kind
}

// script is a random stream of one message.
func script(rng *rand.Rand, n int) []agent.MessageUpdate {
	m := writer{message: "m", attempt: 3, block: -1}
	out := []agent.MessageUpdate{m.update(agent.LLMEvent{Type: agent.LLMStart, Partial: &agent.Message{Role: agent.RoleAssistant}})}
	out[0].Block = 0
	texts := []string{"a", "é", "😀", "\n", "", "hello ", strings.Repeat("漢", 30), "\U0001F468\u200d\U0001F469"}
	starts := []string{agent.LLMTextStart, agent.LLMThinkingStart, agent.LLMFunctionCallStart}
	adds := []string{agent.LLMTextDelta, agent.LLMThinkingDelta, agent.LLMFunctionCallDelta}
	kind := 0
	for range n {
		switch pick := rng.IntN(12); {
		case pick == 0 || m.block < 0:
			m.block++
			m.offset = 0
			kind = rng.IntN(3)
			e := agent.LLMEvent{Type: starts[kind]}
			if kind == 2 {
				e.ID, e.FunctionID = "c", "agent_trigger"
			}
			out = append(out, m.update(e))
		case pick == 1:
			out = append(out, m.update(agent.LLMEvent{Type: agent.LLMUsage}))
		default:
			text := texts[rng.IntN(len(texts))]
			if rng.IntN(200) == 0 {
				text = strings.Repeat("long 漢字 ", 4000) // more than a page
			}
			u := m.update(agent.LLMEvent{Type: adds[kind], Delta: text})
			m.offset += utf8.RuneCountInString(text)
			out = append(out, u)
		}
	}
	return out
}

// TestDraftGivesEveryViewerTheSameText lets viewers follow a random stream at
// random speeds, from the start or from the middle, and wants the text whole.
func TestDraftGivesEveryViewerTheSameText(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		checkDraft(t, seed, 150)
	}
}

func FuzzDraft(f *testing.F) {
	f.Add(uint64(1), uint16(40))
	f.Add(uint64(7), uint16(300))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) { checkDraft(t, seed, int(n)%400) })
}

func checkDraft(t *testing.T, seed uint64, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	updates := script(rng, n)
	want := newReader(t)
	for _, u := range updates {
		u.LLMEvent.Partial = nil
		want.take(u)
	}
	type viewer struct {
		at   spot
		out  *reader
		from int
	}
	d := newDraft(updates[0])
	viewers := []*viewer{{out: newReader(t)}}
	viewers[0].at.enter(d)
	for i, u := range updates {
		if !d.continues(u) {
			t.Fatalf("seed %d: update %d was taken for another message", seed, i)
		}
		d.add(u, 5)
		if rng.IntN(20) == 0 {
			viewers = append(viewers, &viewer{at: spot{draft: d, join: joins}, out: newReader(t), from: i})
		}
		for _, v := range viewers {
			for rng.IntN(3) == 0 && v.at.wants(true) {
				if u, ok := v.at.take(); ok {
					v.out.take(u)
				}
			}
		}
	}
	for _, v := range viewers {
		for v.at.wants(true) {
			if u, ok := v.at.take(); ok {
				v.out.take(u)
			}
		}
		if !maps.Equal(want.blocks, v.out.blocks) {
			diff := cmp.Diff(want.blocks, v.out.blocks)
			t.Fatalf("seed %d, viewer from %d: text differs:\n%s", seed, v.from, diff)
		}
		if diff := cmp.Diff(want.kinds, v.out.kinds); diff != "" {
			t.Fatalf("seed %d, viewer from %d: kinds differ:\n%s", seed, v.from, diff)
		}
		if diff := cmp.Diff(want.calls, v.out.calls); diff != "" {
			t.Fatalf("seed %d, viewer from %d: calls differ:\n%s", seed, v.from, diff)
		}
		if v.out.more || v.out.rev > d.rev {
			t.Fatalf("seed %d, viewer from %d: ends at rev %d, more=%v; the draft is at %d", seed, v.from, v.out.rev, v.out.more, d.rev)
		}
	}
}

func TestDraftMergesWhatASlowViewerMissed(t *testing.T) {
	t.Parallel()
	m := writer{message: "m"}
	d := newDraft(m.update(agent.LLMEvent{Type: agent.LLMStart}))
	for range 10 {
		d.add(m.delta("häh "), -1)
	}
	u, c := d.next(cursor{})
	if u.LLMEvent.Delta != strings.Repeat("häh ", 10) || u.Rev != 11 || u.Offset != 0 {
		t.Errorf("next = %+v, want all ten deltas at rev 11", u)
	}
	if d.pending(c) {
		t.Error("something is pending behind the end")
	}
	d.add(m.delta("!"), -1)
	if u, _ = d.next(c); u.LLMEvent.Delta != "!" || u.Offset != 40 || u.Rev != 12 {
		t.Errorf("next = %+v, want ! at offset 40, rev 12", u)
	}
}

// TestDraftKeepsDeltasWhole: a page ends where a delta does, so that revisions
// grow from page to page.
func TestDraftKeepsDeltasWhole(t *testing.T) {
	t.Parallel()
	m := writer{message: "m"}
	d := newDraft(m.update(agent.LLMEvent{Type: agent.LLMStart}))
	for range 10 {
		d.add(m.delta(strings.Repeat("x", 10<<10)), -1)
	}
	var revs []int64
	var sizes []int
	for c := (cursor{}); d.pending(c); {
		var u agent.MessageUpdate
		u, c = d.next(c)
		revs = append(revs, u.Rev)
		sizes = append(sizes, len(u.LLMEvent.Delta))
	}
	if diff := cmp.Diff([]int64{3, 5, 7, 9, 11}, revs); diff != "" {
		t.Errorf("revisions:\n%s", diff)
	}
	if diff := cmp.Diff([]int{20 << 10, 20 << 10, 20 << 10, 20 << 10, 20 << 10}, sizes); diff != "" {
		t.Errorf("sizes:\n%s", diff)
	}
}

func TestDraftBeginsAnew(t *testing.T) {
	t.Parallel()
	first := agent.MessageUpdate{MessageID: "m", Attempt: 1}
	for _, tt := range []struct {
		name string
		next agent.MessageUpdate
		want bool
	}{
		{"another delta", agent.MessageUpdate{MessageID: "m", Attempt: 1, Offset: 3, LLMEvent: agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "x"}}, true},
		{"another message", agent.MessageUpdate{MessageID: "n", Attempt: 1, Offset: 3, LLMEvent: agent.LLMEvent{Type: agent.LLMTextDelta}}, false},
		{"another attempt", agent.MessageUpdate{MessageID: "m", Attempt: 2, Offset: 3, LLMEvent: agent.LLMEvent{Type: agent.LLMTextDelta}}, false},
		{"a second start", agent.MessageUpdate{MessageID: "m", Attempt: 1, LLMEvent: agent.LLMEvent{Type: agent.LLMStart}}, false},
		{"text from the beginning", agent.MessageUpdate{MessageID: "m", Attempt: 1, LLMEvent: agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "x"}}, false},
		{"usage", agent.MessageUpdate{MessageID: "m", Attempt: 1, LLMEvent: agent.LLMEvent{Type: agent.LLMUsage}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDraft(first)
			u := first
			u.LLMEvent = agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "abc"}
			d.add(u, -1)
			if got := d.continues(tt.next); got != tt.want {
				t.Errorf("continues = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSnapshotShowsACallWithoutArguments: the viewer learns of a call that has
// only begun.
func TestSnapshotShowsACallWithoutArguments(t *testing.T) {
	t.Parallel()
	m := writer{message: "m", attempt: 1}
	d := newDraft(m.update(agent.LLMEvent{Type: agent.LLMStart}))
	d.add(m.update(agent.LLMEvent{Type: agent.LLMTextStart}), -1)
	d.add(m.delta("so"), -1)
	d.add(m.update(agent.LLMEvent{Type: agent.LLMTextEnd}), -1)
	m.block, m.offset = 1, 0
	d.add(m.update(agent.LLMEvent{Type: agent.LLMFunctionCallStart, ID: "c1", FunctionID: "agent_trigger"}), -1)
	at := spot{draft: d, join: joins}
	var got []agent.LLMEvent
	for at.wants(true) {
		if u, ok := at.take(); ok {
			got = append(got, u.LLMEvent)
		}
	}
	want := []agent.LLMEvent{
		{Type: agent.LLMSnapshot, Kind: agent.BlockText, Text: "so"},
		{Type: agent.LLMSnapshot, Kind: agent.BlockFunctionCall, ID: "c1", FunctionID: "agent_trigger"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot:\n%s", diff)
	}
}
