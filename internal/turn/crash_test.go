package turn

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// crashRun plays a turn with two parallel calls, of which the second waits for
// approval if asks is set. It kills the first worker at the first of the given
// writes, the second one at the second, and so on, and lets the last one end
// the turn. It answers how many writes the first worker made.
func crashRun(t *testing.T, at []int, after, asks, idempotent bool) (writes int) {
	w := newWorld(t)
	second := "ok::b"
	if asks {
		second = "ask::b"
	}
	meta := bus.Meta{Idempotent: idempotent}
	a, b := w.target("ok::a", meta, bus.KindBuiltin), w.target(second, meta, bus.KindBuiltin)
	// A model that is asked again gives the same answer.
	first := wants(want("ok::a", map[string]int{"n": 1}), want(second, map[string]int{"n": 2}))
	w.bus.on("provider::test::stream", w.model.stream)
	w.model.mu.Lock()
	w.model.choose = func(r providerRequest) modelReply {
		if r.Messages[len(r.Messages)-1].Role == agent.RoleFunctionResult {
			return says("done")
		}
		return first
	}
	w.model.mu.Unlock()
	w.session.seed("s1", "alice", agent.User("before", 1))
	firstWorker := w.proc
	lives := func(p *process, at int) {
		p.fault.mu.Lock()
		p.fault.at, p.fault.after = at, after
		p.fault.mu.Unlock()
	}

	payload := map[string]any{
		"session_id": "s1", "provider": "test", "model": "m1", "message_id": "m1",
		"messages": []agent.Message{agent.User("go", 1)},
	}
	approve := func() {
		r := w.record("s1")
		if r == nil || r.State != step.Awaiting {
			return
		}
		for _, wait := range r.AwaitingApproval {
			row := agent.Decision{
				Decision: agent.DecisionAllow, Run: r.Run, ArgsHash: step.ArgsHash(wait.FunctionID, wait.Args.Raw),
			}
			key := "s1/" + wait.FunctionCallID
			if ok, err := w.proc.turn.readRow(t.Context(), agent.ScopeApprovals, key, &agent.Decision{}); err == nil && !ok {
				w.setRow(agent.ScopeApprovals, key, row)
				w.raise("s1")
			}
			w.fire("turn::on_approval", key, encode(row))
		}
	}
	done := func() bool {
		r := w.record("s1")
		return r != nil && r.State.Terminal() && r.Outbox.IsZero()
	}
	p, err := w.proc, errDead
	for ; ; p = w.boot() {
		n := 0
		if len(at) > 0 {
			n, at = at[0], at[1:]
		}
		lives(p, n)
		if err != nil { // the client has not heard: it asks again
			_, err = w.call(alice, "run::start", payload)
		}
		w.clock.Advance(61 * time.Second) // a dead worker's message comes back
		w.eventually("the worker to end", func() bool {
			if p.isDead() || done() {
				return true
			}
			approve()
			w.nudge()
			return false
		})
		if !p.isDead() && err == nil {
			break
		}
		p.kill()
		<-p.done
	}
	w.advanceUntil("an empty queue", 20*time.Second, func() bool {
		s, err := w.queues.Stats(t.Context(), agent.QueueTurnStep)
		w.check(err)
		if p.isDead() { // at its last write
			p = w.boot()
		}
		return s.Depth == 0 && s.InFlight == 0
	})
	firstWorker.fault.mu.Lock()
	writes = firstWorker.fault.n
	firstWorker.fault.mu.Unlock()
	w.checkCrash(a, b, second, idempotent)
	return writes
}

func (p *process) isDead() bool { return p.fault.alive() != nil }

// nudge moves the clock if nothing else can move the turn: a message that backs
// off, or none at all, which is the sweep's to find.
func (w *world) nudge() {
	s, err := w.queues.Stats(w.t.Context(), agent.QueueTurnStep)
	w.check(err)
	r := w.record("s1")
	switch {
	case s.InFlight > 0 || r == nil || r.State == step.Awaiting && r.Outbox.IsZero():
	case s.Depth > 0:
		w.clock.Advance(time.Second)
	case !r.Outbox.IsZero() || !r.State.Terminal():
		w.clock.Advance(step.DueAfter + time.Second)
		_, _ = w.call(alice, "turn::sweep", map[string]any{}) // it may be the moment to die
	}
}

// checkCrash checks what holds whatever happened.
func (w *world) checkCrash(a, b *target, second string, idempotent bool) {
	t := w.t
	rec := w.record("s1")
	if rec.State != step.Stopped {
		t.Errorf("state %s, error %+v", rec.State, rec.Error)
	}
	for _, x := range []*target{a, b} {
		keys := map[string]bool{}
		for _, k := range x.effects {
			keys[k] = true
		}
		if len(keys) > 1 || (!idempotent && len(x.effects) > 1) {
			t.Errorf("effects %v", x.effects)
		}
	}
	res := w.results("s1")
	if len(res) != 2 || res[0].FunctionID != "ok::a" || res[1].FunctionID != second {
		t.Fatalf("results %+v", res)
	}
	for i, x := range []*target{a, b} {
		unknown := res[i].IsError
		if unknown && idempotent {
			t.Errorf("%s: %s", res[i].FunctionID, res[i].Details)
		}
		if !unknown && len(x.effects) == 0 {
			t.Errorf("%s has a result and did not run", res[i].FunctionID)
		}
		if unknown && w.details("s1", i)["error"] != step.CodeOutcomeUnknown {
			t.Errorf("%s: %s", res[i].FunctionID, res[i].Details)
		}
	}
	w.legalPath("s1")
	var roles []string
	for _, e := range w.session.path("s1") {
		roles = append(roles, string(e.Message.Role))
	}
	if diff := cmp.Diff([]string{"user", "user", "assistant", "function_result", "function_result", "assistant"}, roles); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	w.checkLog(second)
}

// checkLog checks that the event log has neither gap nor repeat.
func (w *world) checkLog(string) {
	t := w.t
	got := map[string]int{}
	for _, e := range w.events("s1") { // checks the sequence
		kind := e["type"].(string)
		switch kind {
		case agent.EventExecutionStart, agent.EventExecutionEnd:
			kind += " " + e["function_id"].(string)
		}
		got[kind]++
	}
	for kind, n := range map[string]int{"message_complete": 2, "turn_end": 2, "agent_end": 1} {
		if got[kind] != n {
			t.Errorf("%d events %s, want %d", got[kind], kind, n)
		}
	}
	for kind, n := range got {
		if n > 1 && kind != agent.EventTurnStateChanged && kind != "message_complete" && kind != "turn_end" {
			t.Errorf("%d events %s", n, kind)
		}
	}
	items, err := w.db.Streams().List(t.Context(), agent.StreamTurnEnd, "s1")
	if err != nil || len(items) != 2 {
		t.Errorf("agent::turn_end has %d frames (%v), want 2", len(items), err)
	}
}

// TestA23A25F11CrashMatrix kills the worker before and after each durable write of
// a turn, and redelivers.
func TestA23A25F11CrashMatrix(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		asks, idempotent bool
		writes           int
	}{{false, false, plainWrites}, {false, true, plainWrites}, {true, false, askedWrites}} {
		for _, after := range []bool{false, true} {
			for n := 1; n <= tc.writes; n++ {
				t.Run(fmt.Sprintf("asks=%v/idempotent=%v/after=%v/%d", tc.asks, tc.idempotent, after, n), func(t *testing.T) {
					t.Parallel()
					crashRun(t, []int{n}, after, tc.asks, tc.idempotent)
				})
			}
		}
	}
}

// At most so many writes does a worker make in the turn of the matrix.
const plainWrites, askedWrites = 26, 42

// TestF11CrashStorm kills one worker after the other.
func TestF11CrashStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			var at []int
			for range 4 {
				at = append(at, 1+r.IntN(12))
			}
			crashRun(t, at, seed%2 == 0, seed%3 == 0, seed%4 > 1)
		})
	}
}

// The matrix reaches past the last write.
func TestCrashMatrixCoversAllWrites(t *testing.T) {
	t.Parallel()
	for asks, most := range map[bool]int{false: plainWrites, true: askedWrites} {
		if n := crashRun(t, nil, false, asks, false); n > most || n < most/2 {
			t.Errorf("asks=%v: the worker made %d writes; the matrix covers %d", asks, n, most)
		}
	}
}
