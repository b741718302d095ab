package cron

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/internal/lifetime"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/trigger"
)

// Type is the id of the trigger type.
const Type = "cron"

// MaxRun is how long a function may run before its job goes on without it.
const MaxRun = 24 * time.Hour

// recheck is how long a job sleeps at most before it looks at the wall clock again, which may jump.
const recheck = time.Minute

// Firer calls the function of a binding. A trigger.Dispatcher is one.
type Firer interface {
	Fire(ctx context.Context, b trigger.Binding, f trigger.Firing) (json.RawMessage, bool, error)
}

// Lock is for rings where several processes have the same jobs.
type Lock interface {
	// Claim reports whether this process is to run a job at a time of its schedule: exactly one that asks is. An error
	// skips the time.
	Claim(ctx context.Context, job string, at time.Time) (bool, error)
}

// Config is what a Provider needs.
type Config struct {
	Firer Firer
	Clock clock.Clock
	// Lock is nil where one process has all jobs.
	Lock Lock
	// Logger may be nil.
	Logger *slog.Logger
}

// Provider runs the jobs. It is safe for concurrent use. It implements trigger.Provider.
type Provider struct {
	cfg  Config
	life *lifetime.Lifetime

	mu   sync.Mutex
	jobs map[string]*job
	// last is the job that had an id before, while its function runs.
	last map[string]*job
}

// job is one binding.
type job struct {
	trigger.Binding
	*Schedule
	unbound, finished chan struct{}
}

// New is a provider without jobs.
func New(cfg Config) (*Provider, error) {
	if cfg.Firer == nil || cfg.Clock == nil {
		return nil, errors.New("cron: Firer and Clock are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Provider{cfg: cfg, life: lifetime.New(), jobs: map[string]*job{}, last: map[string]*job{}}
	return p, nil
}

// config is that of a cron trigger.
type config struct {
	Expression string `json:"expression"`
	Condition  string `json:"condition_function_id,omitempty"`
}

// payload is what a cron trigger delivers.
type payload struct {
	Trigger   string `json:"trigger"`
	JobID     string `json:"job_id"`
	Scheduled string `json:"scheduled_time"`
	Actual    string `json:"actual_time"`
}

// Description describes the type for trigger.Table.Provide.
func Description() trigger.Type {
	return trigger.Type{
		ID: Type, Description: "Calls a function at the times of a cron expression, in UTC",
		Config: input.Schema(reflect.TypeFor[config]()), Payload: input.Schema(reflect.TypeFor[payload]()),
	}
}

// read is the schedule of a binding.
func read(raw json.RawMessage) (*Schedule, error) {
	var expression string
	if value, ok := protocol.Member(raw, "expression"); !ok || json.Unmarshal(value, &expression) != nil || expression == "" {
		return nil, failed("Cron expression is required")
	}
	var c config
	if detail := input.Read(raw, &c); detail != "" {
		return nil, failed("Failed to parse trigger config: " + detail)
	}
	s, err := Parse(c.Expression)
	if err != nil {
		return nil, failed(err.Error())
	}
	return s, nil
}

func failed(message string) error {
	return &bus.Error{Code: protocol.CodeTriggerRegistrationFailed, Message: message}
}

// Bind implements trigger.Provider. The id of a job that is bound is refused.
func (p *Provider) Bind(_ context.Context, b trigger.Binding) error {
	s, err := read(b.Config)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.jobs[b.ID] != nil:
		return failed("Cron job '" + b.ID + "' is already registered")
	}
	j := &job{b, s, make(chan struct{}), make(chan struct{})}
	before := p.last[b.ID]
	if !p.life.Go(func() { p.run(j, before) }) {
		return failed("The bus is shutting down.")
	}
	p.jobs[b.ID] = j
	return nil
}

// Unbind implements trigger.Provider.
func (p *Provider) Unbind(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobs[id]
	if j == nil {
		return
	}
	delete(p.jobs, id)
	close(j.unbound)
	p.last[id] = j
}

// Close ends all jobs, and waits for what runs until ctx ends. The contexts of the calls end.
func (p *Provider) Close(ctx context.Context) error { return p.life.Close(ctx) }

// run fires a job until it is unbound, once the job that had its id before has ended.
func (p *Provider) run(j, before *job) {
	defer p.end(j)
	if before != nil {
		<-before.finished
	}
	var last time.Time
	for {
		after := p.cfg.Clock.Now()
		if after.Before(last) {
			after = last // the wall clock went back: no time comes twice
		}
		next, ok := j.Next(after)
		if !ok {
			p.cfg.Logger.Info("a cron job has no further time", "trigger_id", j.ID)
			select {
			case <-j.unbound:
			case <-p.life.Context().Done():
			}
			return
		}
		if !p.sleep(j, next) {
			return
		}
		last = next
		p.fire(j, next)
	}
}

// end forgets a job.
func (p *Provider) end(j *job) {
	close(j.finished)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[j.ID] == j {
		delete(p.last, j.ID)
	}
}

// sleep waits for a time on the wall clock, and reports whether the job is still there.
func (p *Provider) sleep(j *job, until time.Time) bool {
	for {
		wait := until.Sub(p.cfg.Clock.Now())
		timer := p.cfg.Clock.NewTimer(min(wait, recheck))
		select {
		case <-timer.C():
		case <-j.unbound:
		case <-p.life.Context().Done():
		}
		timer.Stop()
		select {
		case <-j.unbound:
			return false
		case <-p.life.Context().Done():
			return false
		default:
		}
		if !p.cfg.Clock.Now().Before(until) {
			return true
		}
	}
}

// rfc3339 writes UTC as an offset, as the iii engine does.
const rfc3339 = "2006-01-02T15:04:05.999999999-07:00"

func (p *Provider) fire(j *job, at time.Time) {
	log := p.cfg.Logger.With("trigger_id", j.ID, "function_id", j.FunctionID)
	if p.cfg.Lock != nil {
		mine, err := p.cfg.Lock.Claim(p.life.Context(), j.ID, at)
		if err != nil {
			log.Error("a cron job was skipped: its time could not be claimed", "alarm", "cron_skipped", "error", err)
		}
		if err != nil || !mine {
			return
		}
	}
	data, err := bus.Encode(payload{
		Trigger: Type, JobID: j.ID, Scheduled: at.Format(rfc3339), Actual: p.cfg.Clock.Now().UTC().Format(rfc3339),
	})
	if err == nil {
		_, _, err = p.cfg.Firer.Fire(p.life.Context(), j.Binding, trigger.Firing{Payload: data, Metadata: true, Timeout: MaxRun})
	}
	if err != nil && p.life.Context().Err() == nil {
		log.Warn("a run of a cron job failed", "code", bus.Code(err))
	}
}
