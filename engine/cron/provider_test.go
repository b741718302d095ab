package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/cron"
	"github.com/iii-aws/harness/engine/trigger"
)

// run is one call of a function.
type run struct {
	ctx     context.Context
	binding trigger.Binding
	firing  trigger.Firing
	answer  chan error
}

// rig is a provider whose runs the test answers.
type rig struct {
	*cron.Provider
	t     *testing.T
	clock *clock.Fake
	runs  chan run
	log   *lines
}

func newRig(t *testing.T, lock cron.Lock) *rig {
	t.Helper()
	g := &rig{t: t, clock: clock.NewFake(time.Date(2026, 11, 30, 22, 5, 57, 500e6, time.UTC)), runs: make(chan run), log: &lines{}}
	var err error
	if g.Provider, err = cron.New(cron.Config{Firer: g, Clock: g.clock, Lock: lock, Logger: slog.New(slog.NewTextHandler(g.log, nil))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.close() })
	return g
}

func (g *rig) close() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		g.t.Error(err)
	}
}

// Fire implements cron.Firer.
func (g *rig) Fire(ctx context.Context, b trigger.Binding, f trigger.Firing) (json.RawMessage, bool, error) {
	r := run{ctx, b, f, make(chan error)}
	select {
	case g.runs <- r:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	select {
	case err := <-r.answer:
		return nil, false, err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

func (g *rig) bind(id, expression string) {
	g.t.Helper()
	config, err := json.Marshal(map[string]string{"expression": expression})
	if err == nil {
		err = g.Bind(g.t.Context(), trigger.Binding{ID: id, FunctionID: "f::g", Config: config, Metadata: json.RawMessage(`{"why":"cron"}`)})
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// tick advances the clock once the jobs sleep, and returns the run that begins.
func (g *rig) tick(d time.Duration, jobs int) run {
	g.t.Helper()
	g.clock.BlockUntil(jobs)
	g.clock.Advance(d)
	return g.run()
}

func (g *rig) run() run {
	g.t.Helper()
	select {
	case r := <-g.runs:
		return r
	case <-time.After(10 * time.Second):
		g.t.Fatal("nothing ran")
		return run{}
	}
}

func (g *rig) none() {
	g.t.Helper()
	select {
	case r := <-g.runs:
		g.t.Errorf("ran %s", r.firing.Payload)
	default:
	}
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func TestPayload(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.bind("j", "*/2 * * * * *")
	r := g.tick(501*time.Millisecond, 1)
	const want = `{"trigger":"cron","job_id":"j","scheduled_time":"2026-11-30T22:05:58+00:00","actual_time":"2026-11-30T22:05:58.001+00:00"}`
	if diff := cmp.Diff(want, string(r.firing.Payload)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !r.firing.Metadata || r.firing.Timeout != cron.MaxRun || r.binding.ID != "j" || r.binding.FunctionID != "f::g" {
		t.Errorf("got %+v", r)
	}
	r.answer <- nil
}

func TestRunsDoNotOverlapAndAreNotCaughtUp(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.bind("j", "* * * * * *")
	first := g.tick(500*time.Millisecond, 1)
	g.clock.Advance(10*time.Second + 300*time.Millisecond) // ten times pass while it runs
	g.none()
	first.answer <- errors.New("broken")
	second := g.tick(700*time.Millisecond, 1)
	if !strings.Contains(string(second.firing.Payload), `"scheduled_time":"2026-11-30T22:06:09+00:00"`) {
		t.Errorf("got %s, want the first time after the function answered", second.firing.Payload)
	}
	second.answer <- nil
	if !g.log.has(`level=WARN msg="a run of a cron job failed" trigger_id=j function_id=f::g code=invocation_failed`) || g.log.has("broken") {
		t.Errorf("logged %s", g.log.text.String())
	}
}

func TestTheWallClockMayJump(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.bind("j", "0 0 23 * * *") // in 54 minutes
	g.clock.BlockUntil(1)
	g.clock.Jump(54*time.Minute + 10*time.Second) // past it, as after a sleep of the machine
	r := g.tick(time.Minute, 1)
	if !strings.Contains(string(r.firing.Payload), `"scheduled_time":"2026-11-30T23:00:00+00:00"`) {
		t.Errorf("got %s", r.firing.Payload)
	}
	g.clock.Jump(-time.Hour)
	r.answer <- nil
	for range 61 { // the same time again
		g.clock.BlockUntil(1)
		g.clock.Advance(time.Minute)
	}
	g.clock.BlockUntil(1)
	g.none()
}

func TestAnUnboundJobEnds(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.bind("j", "* * * * * *")
	g.bind("other", "0 0 0 1 1 *")
	err := g.Bind(t.Context(), trigger.Binding{ID: "j", Config: json.RawMessage(`{"expression":"0 0 0 2 1 *"}`)})
	if diff := cmp.Diff(&bus.Error{Code: "trigger_registration_failed", Message: "Cron job 'j' is already registered"}, err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := g.tick(500*time.Millisecond, 2)
	g.Unbind("nope")
	g.Unbind("j")
	if r.ctx.Err() != nil {
		t.Error("the end of the binding cut its run")
	}
	g.bind("j", "* * * * * *") // waits for the run of the job before
	g.clock.BlockUntil(1)
	g.clock.Advance(5 * time.Second)
	g.none()
	r.answer <- nil
	r = g.tick(time.Second, 2)
	r.answer <- nil
	g.clock.BlockUntil(2)
	g.Unbind("j")
	for g.clock.Waiting() > 1 {
		runtime.Gosched()
	}
	g.bind("j", "* * * * * *")
	r = g.tick(time.Second, 2)
	g.close()
	if r.ctx.Err() == nil {
		t.Error("Close left a run alone")
	}
	if err := g.Bind(t.Context(), trigger.Binding{ID: "late", Config: json.RawMessage(`{"expression":"* * * * * *"}`)}); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	if g.log.has("failed") {
		t.Errorf("a run that was cut is no failure: %s", g.log.text.String())
	}
}

func TestAJobWithoutAFurtherTime(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.bind("past", "0 0 0 1 1 * 2020")
	g.bind("once", "58 5 22 30 11 * 2026")
	g.tick(time.Second, 1).answer <- nil
	for !g.log.has("no further time\" trigger_id=once") || !g.log.has("no further time\" trigger_id=past") {
		runtime.Gosched()
	}
	g.Unbind("past")
	g.bind("past", "* * * * * *")
	g.tick(time.Second, 1).answer <- nil
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	for config, want := range map[string]string{
		`{}`:                         "Cron expression is required",
		`{"expression":""}`:          "Cron expression is required",
		`{"expression":7}`:           "Cron expression is required",
		`null`:                       "Cron expression is required",
		`"str"`:                      "Cron expression is required",
		`[]`:                         "Cron expression is required",
		`{"expression":"zzz"}`:       "Invalid cron expression 'zzz': zzz\n^\nThe 'Seconds' field does not support using names. 'zzz' specified.",
		`{"expression":"* * * * *"}`: "Invalid cron expression '* * * * *': * * * * *\n         ^\n",
		`{"expression":"* * * * * *","condition_function_id":1}`: "Failed to parse trigger config: invalid type: integer `1`, expected a string",
	} {
		err := g.Bind(t.Context(), trigger.Binding{ID: "j", Config: json.RawMessage(config)})
		if diff := cmp.Diff(&bus.Error{Code: "trigger_registration_failed", Message: want}, err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
	if _, err := cron.New(cron.Config{}); err == nil {
		t.Error("a provider without anything was made")
	}
	if d := cron.Description(); d.ID != "cron" || !strings.Contains(string(d.Config), `"expression"`) || !strings.Contains(string(d.Payload), `"job_id"`) {
		t.Errorf("got %+v", d)
	}
}

// ballots is a Lock that answers what the test says.
type ballots struct {
	asked   chan string
	answers chan error
}

var errTaken = errors.New("taken")

func (b ballots) Claim(_ context.Context, job string, at time.Time) (bool, error) {
	b.asked <- job + " " + at.Format(time.RFC3339)
	err := <-b.answers
	if errors.Is(err, errTaken) {
		return false, nil
	}
	return err == nil, err
}

func TestALockGuardsATime(t *testing.T) {
	t.Parallel()
	lock := ballots{make(chan string), make(chan error)}
	g := newRig(t, lock)
	g.bind("j", "* * * * * *")
	for _, answer := range []error{errTaken, errors.New("disk"), nil} {
		g.clock.BlockUntil(1)
		g.clock.Advance(time.Second)
		if got := <-lock.asked; !strings.HasPrefix(got, "j 2026-11-30T22:0") {
			t.Errorf("asked %s", got)
		}
		lock.answers <- answer
	}
	g.run().answer <- nil
	if !g.log.has("alarm=cron_skipped") {
		t.Error("nothing was logged")
	}
}
