package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/cron"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/gateway"
	"github.com/iii-aws/harness/engine/otlp"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/remote"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/secret"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/telemetry"
	"github.com/iii-aws/harness/engine/topic"
	"github.com/iii-aws/harness/engine/trigger"
	"github.com/iii-aws/harness/engine/web"
	"github.com/iii-aws/harness/functions"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/config"
	"github.com/iii-aws/harness/internal/policy"
	"github.com/iii-aws/harness/internal/turn"
)

// stackOptions say what a stack is made of.
type stackOptions struct {
	config      config.Config
	configFile  string // where config is from; it may not exist
	permissions string // file; must exist unless permissionsDefault
	// permissionsDefault: the file may be missing, then built-in rules serve.
	permissionsDefault bool
	data, workDir      string
	requireToken       bool
	httpURL            string          // where the HTTP side is; empty if nobody serves it
	strict             *gateway.Strict // nil: not as API Gateway
	getenv             func(string) string
	environ            func() []string
	clock              clock.Clock
	ids                clock.IDs
	logger             *slog.Logger
	telemetry          *telemetry.Telemetry
	noSync             bool
	fault              embedded.FaultHook
	// tune changes the options of the turn; for tests.
	tune func(*turnOptions)
	// stats hears of the writes that a turn waits for; for tests.
	stats turn.Stats
	// wrapQueue goes around the queue port that the turn sends to; for tests.
	wrapQueue func(queue.Queue) queue.Queue
}

// stack is the whole harness in one process: the ports on one data folder, the
// bus, and the listed workers on it.
type stack struct {
	stackOptions
	db       *embedded.DB
	queues   *embedded.Queue
	timers   *embedded.Timer
	channels *channel.Local
	// sockets and collector are served beside the bus.
	sockets   *channel.Sockets
	collector *otlp.Collector
	secrets   secret.Store
	// secretFile is where the credentials are.
	secretFile string
	registry   *registry.Registry
	router     *router.Router
	triggers   *trigger.Table
	dispatch   *trigger.Dispatcher
	cron       *cron.Provider
	available  *trigger.Available
	live       *topic.Live
	durable    *topic.Durable
	web        *web.Server
	uploads    *blob.Uploads // nil without an address
	tokens     *access.Tokens
	gateway    *gateway.Server
	policy     *policy.Source
	jobs       *jobs

	ctx     context.Context
	cancel  context.CancelFunc
	work    context.Context // ends when no new work is taken
	endWork context.CancelFunc
	loops   sync.WaitGroup
	// consuming guards consumers, which is nil until queues are drained and has the names that are.
	consuming sync.Mutex
	consumers map[string]bool
	closers   []func(context.Context) error
}

// openStack opens the data and registers every worker. Nothing runs before
// start.
func openStack(ctx context.Context, o stackOptions) (_ *stack, err error) {
	s := &stack{stackOptions: o}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.work, s.endWork = context.WithCancel(s.ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.Background()))
		}
	}()
	if err := s.openPorts(ctx); err != nil {
		return nil, err
	}
	if err := s.openBus(ctx); err != nil {
		return nil, err
	}
	if s.jobs, err = s.openJobs(ctx); err != nil {
		return nil, err
	}
	return s, s.register()
}

func (s *stack) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

// stepTimeout is how long one delivery of a turn may work. It is renewed all
// the while, so this is only a bound on what went wrong.
const stepTimeout = 24 * time.Hour

func (s *stack) openPorts(ctx context.Context) error {
	var err error
	s.db, err = embedded.Open(ctx, embedded.Options{Dir: s.data, Clock: s.clock, IDs: s.ids, Logger: s.logger, NoSync: s.noSync, Fault: s.fault})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { return s.db.Close() })
	if s.queues, err = embedded.OpenQueue(ctx, s.db); err != nil {
		return err
	}
	if s.timers, err = embedded.OpenTimer(ctx, s.db, s.queues); err != nil {
		return err
	}
	s.channels = channel.NewLocal(s.clock, s.ids)
	if s.secretFile, err = s.credentialFile(); err != nil {
		return err
	}
	s.secrets = embedded.NewSecretFile(s.secretFile, embedded.WithSecretLogger(s.logger))
	for i := range s.config.Turn.Shards {
		name := agent.QueueTurnStep
		if s.config.Turn.Shards > 1 {
			name = fmt.Sprintf("%s-%d", agent.QueueTurnStep, i)
		}
		if _, err := s.queues.Define(ctx, queue.Config{Name: name, Type: queue.FIFO, GroupField: "session_id", ContentDedup: true,
			MaxReceives: 5, Concurrency: s.config.Turn.Concurrency, Visibility: time.Minute, Timeout: stepTimeout,
			DeadLetterFunction: "turn::on_dead_letter", Internal: true}); err != nil {
			return err
		}
	}
	for name, q := range s.config.Queues {
		if _, err := s.queues.Define(ctx, q.Define(name)); err != nil {
			return err
		}
	}
	return nil
}

// credentialFile is the file that the worker's config names, else one in the
// home folder, else, without a home, one beside the data.
func (s *stack) credentialFile() (string, error) {
	var c struct {
		StorePath string `json:"store_path"`
	}
	if raw := s.config.WorkerConfig("auth-credentials"); len(raw) > 0 {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil || c.StorePath == "" {
			return "", &bus.InvalidError{Field: "workers.auth-credentials.config", Allowed: "store_path (a file)", Err: err}
		}
		return c.StorePath, nil
	}
	if home := s.getenv("HOME"); home != "" {
		return filepath.Join(home, ".harness", "credentials.json"), nil
	}
	return filepath.Join(s.data, "credentials.json"), nil
}

func (s *stack) openBus(ctx context.Context) error {
	var err error
	s.registry, err = registry.New(ctx, registry.Config{State: s.db.State(), Clock: s.clock, Logger: s.logger, Sticky: s.config.Sticky, Version: version})
	if err != nil {
		return err
	}
	may := gateway.NewAccess()
	s.triggers, err = trigger.NewTable(ctx, trigger.Config{State: s.db.State(), Registry: s.registry, IDs: s.ids, Clock: s.clock, Logger: s.logger,
		Send: func(ctx context.Context, connection string, f protocol.Frame) error {
			return s.router.Tell(ctx, connection, f)
		},
		Stands: func(ctx context.Context, p bus.Principal) (bool, error) { return s.tokens.Stands(ctx, p) },
		Authorize: func(call *bus.Call, triggerType, namespace, functionID string) error {
			return s.router.MayBind(call, triggerType, namespace, functionID)
		}})
	if err != nil {
		return err
	}
	calls, err := remote.New(remote.Config{Clock: s.clock, Getenv: s.getenv, Keys: s.config.Remote.SecretKeys,
		PlainHTTP: s.config.Remote.PlainHTTP, Networks: s.config.Remote.Networks()})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { calls.Close(); return nil })
	s.router, err = router.New(router.Config{
		Registry: s.registry, State: s.db.State(), Queue: s.queues, Clock: s.clock, IDs: s.ids, Logger: s.logger,
		Access: may, Triggers: s.triggers, Wrap: s.telemetry.Wrap, Redact: redact.Text, Grace: s.config.Bus.ReattachGrace, Gone: s.gone, WorkerEvent: s.workerEvent, Remote: calls,
	})
	if err != nil {
		return err
	}
	s.onClose(s.router.Close)
	s.dispatch, err = trigger.NewDispatcher(trigger.Delivery{Table: s.triggers, Invoker: s.router.Engine(), Clock: s.clock, Logger: s.logger, Owns: s.owns, Reads: owners{s.owns}.reads,
		Worker: func(p bus.Principal) bool { return p.ID == access.LocalID }})
	if err != nil {
		return err
	}
	if err := s.openTopics(ctx); err != nil {
		return err
	}
	if err := s.openWeb(); err != nil {
		return err
	}
	if err := s.openSide(); err != nil {
		return err
	}
	s.db.SetTriggered(s.triggers.Triggered, s.triggers.StreamTriggered)
	s.tokens = access.NewTokens(s.db.State(), s.clock, s.ids)
	s.tokens.OnRevoke(s.triggers.Revoke)
	s.gateway = gateway.New(gateway.Config{Router: s.router, Tokens: s.tokens, Clock: s.clock, IDs: s.ids, Logger: s.logger, RequireToken: s.requireToken, NamespaceGrace: s.namespaceGrace(), Strict: s.strict, Telemetry: s.telemetryOf})
	may.Use(s.gateway)
	return s.serveEngine()
}

// serveEngine registers the functions of the bus itself.
func (s *stack) serveEngine() error {
	all := map[string]bus.Endpoint{}
	for _, group := range []map[string]bus.Endpoint{
		state.Endpoints(s.db.State(), state.WithGuard(owners{s.owns})), stream.Endpoints(s.db.Streams(), s.override, logs{owners{s.owns}}), blob.Endpoints(s.db.Blobs(), s.owns),
		queue.Endpoints(s.queues, queue.WithDefined(s.consume), queue.WithAuthorize(s.router.MayCall), queue.WithBound(s.durable.Bound)),
		s.live.Endpoints(), s.durable.Endpoints(),
		channel.Endpoints(s.channels), s.uploadEndpoints(), s.tokens.Endpoints(), s.gateway.Endpoints(), s.router.Endpoints(), telemetry.Endpoints(s.logger, s.clock), s.triggers.Endpoints(),
		s.registry.Endpoints(registry.Views{Triggers: s.triggers, Active: s.router.Active, Visible: s.router.Visible, Churn: s.router.Churn, Released: s.router.Reconsider, Metrics: s.collector.Latest}),
	} {
		for id, e := range group {
			all[id] = e
		}
	}
	if s.strict != nil {
		all[channel.FunctionCreate] = channel.WithoutSockets(all[channel.FunctionCreate])
	}
	described := map[string]registry.Function{}
	for id := range all {
		f := registry.Function{Meta: bus.Meta{Idempotent: readOnly(id)}}
		if strings.HasPrefix(id, "auth::api_tokens::") || id == gateway.FunctionTicket {
			f.Meta.Sensitive = true
		}
		described[id] = f
	}
	return s.router.Serve(registry.Builtin{Name: "engine", Description: "The bus itself"}, described, all)
}

// readOnly reports whether a function of the bus changes nothing.
func readOnly(id string) bool {
	for _, verb := range []string{"::get", "::list", "::info", "::read", "::list_groups", "::list_all", "::list_topics", "::topic_stats"} {
		if strings.HasSuffix(id, verb) {
			return true
		}
	}
	return false
}

// override serves stream functions that a worker registered for one stream.
func (s *stack) override(ctx context.Context, functionID string, data json.RawMessage) (json.RawMessage, bool, error) {
	if _, ok := s.registry.Lookup(bus.DefaultNamespace, functionID); !ok {
		return nil, false, nil
	}
	out, err := s.router.Worker("engine").Invoke(ctx, bus.Invocation{FunctionID: functionID, Data: data})
	return out, true, err
}

// owns reports whether a principal may see a session.
func (s *stack) owns(ctx context.Context, p bus.Principal, session string) (bool, error) {
	item, ok, err := s.db.State().Get(ctx, state.Key{Scope: agent.ScopeSessionTreeMeta, Key: session})
	if err != nil || !ok {
		return false, err
	}
	var m struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(item.Value, &m); err != nil {
		return false, err
	}
	return access.Sees(p, m.Owner, session), nil
}

// register puts the listed workers on the bus. Manifests and code must name
// the same functions.
func (s *stack) register() error {
	manifests, err := functions.Manifests()
	if err != nil {
		return err
	}
	for _, m := range manifests {
		endpoints, listed := s.jobs.endpoints[m.Name]
		if !listed {
			continue
		}
		described := map[string]registry.Function{}
		for _, f := range m.Functions {
			if _, ok := endpoints[f.ID]; !ok {
				return fmt.Errorf("worker %s: its manifest names %s, which it does not serve", m.Name, f.ID)
			}
			described[f.ID] = registry.Function{Description: f.Description, Meta: f.Meta()}
		}
		for id := range endpoints {
			if _, ok := described[id]; !ok {
				return fmt.Errorf("worker %s: it serves %s, which its manifest does not name", m.Name, id)
			}
		}
		if err := s.router.Serve(registry.Builtin{Name: m.Name, Version: m.Version, Description: m.Description}, described, endpoints); err != nil {
			return err
		}
		declared := make([]trigger.Declaration, len(m.Triggers))
		for i, t := range m.Triggers {
			declared[i] = trigger.Declaration{Type: t.Type, FunctionID: t.FunctionID, Config: t.Config}
		}
		if err := s.triggers.Declare(m.Name, declared); err != nil {
			return err
		}
	}
	return nil
}
