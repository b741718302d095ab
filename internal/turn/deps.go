package turn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/timer"
	"github.com/iii-aws/harness/internal/agent"
)

// Deps is what a Turn works with. All are required but Viewer, Stats, Alarm and
// Logger.
type Deps struct {
	State     state.Store
	Stream    stream.Store
	Queue     queue.Queue
	Timers    timer.Port
	Blobs     blob.Store
	Channels  channel.Broker
	Bus       bus.Invoker
	Directory bus.Directory
	Viewer    Viewer
	Clock     clock.Clock
	IDs       clock.IDs
	Logger    *slog.Logger
	// Stats hears of every durable write that a turn waits for.
	Stats Stats
	// Alarm is called for what a person must see.
	Alarm  func(name string)
	Config Config
}

// Config bounds a Turn. Zero values take the defaults named.
type Config struct {
	// Shards is the number of turn-step queues; 1.
	Shards int
	// MaxParallelCalls is how many calls of a batch run at once; 16.
	MaxParallelCalls int
	// ResultTextLimit is how many bytes of a result's text a model gets; 64 KiB.
	ResultTextLimit int
	// DefaultProvider is who is asked when nobody was named and the model's
	// name says nothing.
	DefaultProvider string
	// Local: without DefaultProvider and without any credential, scripted is
	// the default.
	Local bool
	// SystemDefaultSkills are loaded into the system prompt; nil is
	// iii://iii-directory/index.
	SystemDefaultSkills []string
	// CoalesceWindow is how long deltas are gathered; 60 ms.
	CoalesceWindow time.Duration
	// FoldWindow is how long a finished message waits for the checks of its
	// calls to be saved with it; 50 ms.
	FoldWindow time.Duration
	// PolicyTimeout and HookTimeout are how long a gate may take; 5 s.
	PolicyTimeout time.Duration
	HookTimeout   time.Duration
	// AfterHookTimeout is how long an after-hook may take; 500 ms.
	AfterHookTimeout time.Duration
	// PolicyNone lets every call pass that the kernel does not deny.
	PolicyNone bool
	// RequiredHooks are topics whose missing subscriber is a denial.
	RequiredHooks []string
	// ApprovalExpiresAfter denies what nobody decided; 0 waits for ever.
	ApprovalExpiresAfter time.Duration
	// CallTimeout is the deadline of a call whose target names none; 30 s.
	CallTimeout time.Duration
	// WaitForCall is how long the turn itself waits for a call; 2 s.
	WaitForCall time.Duration
	// ProviderSilence ends a model call without an event; 120 s.
	ProviderSilence time.Duration
	// ProviderRetries is how often a model call is repeated; 5.
	ProviderRetries int
	// StepBudget is how long one delivery may work; 0 is for ever. Reserve is
	// what it keeps to end cleanly; 10 s.
	StepBudget time.Duration
	Reserve    time.Duration
	// ReservationTTL is how long a budget is held for a model call; 15 min.
	ReservationTTL time.Duration
}

func (c Config) withDefaults() Config {
	c.Shards = cmp.Or(c.Shards, 1)
	c.MaxParallelCalls = cmp.Or(c.MaxParallelCalls, 16)
	c.ResultTextLimit = cmp.Or(c.ResultTextLimit, 64<<10)
	if c.SystemDefaultSkills == nil {
		c.SystemDefaultSkills = []string{"iii://iii-directory/index"}
	}
	c.CoalesceWindow = cmp.Or(c.CoalesceWindow, 60*time.Millisecond)
	c.FoldWindow = cmp.Or(c.FoldWindow, 50*time.Millisecond)
	c.PolicyTimeout = cmp.Or(c.PolicyTimeout, 5*time.Second)
	c.HookTimeout = cmp.Or(c.HookTimeout, 5*time.Second)
	c.AfterHookTimeout = cmp.Or(c.AfterHookTimeout, 500*time.Millisecond)
	c.CallTimeout = cmp.Or(c.CallTimeout, bus.DefaultTimeout)
	c.WaitForCall = cmp.Or(c.WaitForCall, 2*time.Second)
	c.ProviderSilence = cmp.Or(c.ProviderSilence, 120*time.Second)
	c.ProviderRetries = cmp.Or(c.ProviderRetries, 5)
	c.Reserve = cmp.Or(c.Reserve, 10*time.Second)
	c.ReservationTTL = cmp.Or(c.ReservationTTL, 15*time.Minute)
	return c
}

// Viewer posts a session's events and deltas to those who watch it.
type Viewer interface {
	// Open begins to serve the viewers of a session for a step that holds the
	// turn with a lease. It does not block.
	Open(session string, lease int64) ViewerSession
}

// ViewerFunc is a Viewer of a func.
type ViewerFunc func(session string, lease int64) ViewerSession

// Open calls the func.
func (f ViewerFunc) Open(session string, lease int64) ViewerSession { return f(session, lease) }

// ViewerSession serves the viewers of one session. Its methods do not block on
// a viewer, but for Flush. What is told first is posted first.
type ViewerSession interface {
	// Notify says that the log has events up to the head's tail.
	Notify(head stream.Head)
	// Delta posts a delta behind the events told of before.
	Delta(update agent.MessageUpdate)
	// Refresh looks for viewers that have come since.
	Refresh(ctx context.Context) error
	// Flush waits until what was told is posted, as long as ctx lets it, and
	// ends the session.
	Flush(ctx context.Context) error
	// Close ends the session at once, if Flush has not.
	Close()
}

// Stats hears of durable writes that a turn waits for, as they end.
type Stats interface {
	// Waited names the session and what was written.
	Waited(session, what string)
}

// Turn is the worker turn-orchestrator.
type Turn struct {
	Deps
	cfg Config

	presence presence
	mu       sync.Mutex
	// downloads is when each skill namespace was last asked for.
	downloads map[string]time.Time
	// swept: the sweep has run in this process.
	swept bool
}

// New checks the dependencies.
func New(d Deps) (*Turn, error) {
	for name, missing := range map[string]bool{
		"State": d.State == nil, "Stream": d.Stream == nil, "Queue": d.Queue == nil, "Timers": d.Timers == nil,
		"Blobs": d.Blobs == nil, "Channels": d.Channels == nil, "Bus": d.Bus == nil, "Directory": d.Directory == nil,
		"Clock": d.Clock == nil, "IDs": d.IDs == nil,
	} {
		if missing {
			return nil, errors.New("turn: Deps." + name + " is required")
		}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Alarm == nil {
		d.Alarm = func(string) {}
	}
	if d.Stats == nil {
		d.Stats = noStats{}
	}
	t := &Turn{Deps: d, cfg: d.Config.withDefaults(), downloads: map[string]time.Time{}}
	t.presence.topics = map[string]presenceEntry{}
	return t, nil
}

type noStats struct{}

func (noStats) Waited(string, string) {}

func (t *Turn) nowMS() int64 { return clock.Millis(t.Clock.Now()) }

// alarm tells people, in the log and through the injected func.
func (t *Turn) alarm(name, text string, attrs ...any) {
	t.Logger.Error(text, append([]any{"alarm", name}, attrs...)...)
	t.Alarm(name)
}
