package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/approval"
	"github.com/iii-aws/harness/internal/config"
	"github.com/iii-aws/harness/internal/credential"
	"github.com/iii-aws/harness/internal/demo"
	"github.com/iii-aws/harness/internal/fanout"
	"github.com/iii-aws/harness/internal/provider/scripted"
	"github.com/iii-aws/harness/internal/session"
	"github.com/iii-aws/harness/internal/shell"
	"github.com/iii-aws/harness/internal/turn"
	"github.com/iii-aws/harness/internal/viewer"
)

// turnOptions are what tests may change of the turn.
type turnOptions = turn.Config

// jobs are the listed workers.
type jobs struct {
	endpoints map[string]map[string]bus.Endpoint
	// provider is who is asked when nobody is named; models is the default
	// model of each provider.
	provider string
	models   map[string]string
	viewers  *viewer.Hub
	fanout   *fanout.Fanout
	closers  []func(context.Context) error
}

func (j *jobs) close(ctx context.Context) error {
	var errs []error
	for i := len(j.closers) - 1; i >= 0; i-- {
		errs = append(errs, j.closers[i](ctx))
	}
	return errors.Join(errs...)
}

// openJobs makes the workers that the config lists.
func (s *stack) openJobs(ctx context.Context) (*jobs, error) {
	j := &jobs{endpoints: map[string]map[string]bus.Endpoint{}, models: map[string]string{scripted.Name: scripted.Model}}
	for p, m := range s.config.DefaultModel {
		j.models[p] = m
	}
	makers := map[string]func(context.Context, *jobs) (map[string]bus.Endpoint, error){
		"session": s.openSession, "approval-gate": s.openApproval, "auth-credentials": s.openCredential,
		"provider-scripted": s.openScripted, "shell": s.openShell, "demo": s.openDemo,
	}
	for _, name := range s.config.Names() {
		make, ok := makers[name]
		if !ok {
			continue // the core, below
		}
		endpoints, err := make(ctx, j)
		if err != nil {
			return j, fmt.Errorf("worker %s: %w", name, err)
		}
		j.endpoints[name] = endpoints
	}
	return j, s.openCore(ctx, j)
}

func (s *stack) openSession(context.Context, *jobs) (map[string]bus.Endpoint, error) {
	w, err := session.New(session.Deps{State: s.db.State(), Clock: s.clock, IDs: s.ids, Logger: s.logger})
	if err != nil {
		return nil, err
	}
	return w.Endpoints(), nil
}

func (s *stack) openApproval(context.Context, *jobs) (map[string]bus.Endpoint, error) {
	w, err := approval.New(approval.Deps{State: s.db.State(), Bus: s.router.Worker("approval-gate"), Clock: s.clock, Logger: s.logger})
	if err != nil {
		return nil, err
	}
	return w.Endpoints(), nil
}

func (s *stack) openCredential(ctx context.Context, j *jobs) (map[string]bus.Endpoint, error) {
	w, err := credential.New(credential.Deps{Secrets: s.secrets, Getenv: s.getenv, Known: redact.Secrets.Add})
	if err != nil {
		return nil, err
	}
	if err := w.Learn(ctx); err != nil {
		return nil, err
	}
	for _, f := range w.Scan() {
		s.logger.Info("provider key found in the environment", "provider", f.Provider, "variable", f.EnvVar)
	}
	return w.Endpoints(), nil
}

func (s *stack) openScripted(context.Context, *jobs) (map[string]bus.Endpoint, error) {
	w, err := scripted.New(scripted.Deps{Channels: s.channels, Clock: s.clock, Logger: s.logger, Config: s.config.WorkerConfig("provider-scripted")})
	if err != nil {
		return nil, err
	}
	return w.Endpoints(), nil
}

// rules are the files that say what agents may do.
func (s *stack) rules() []string {
	out := []string{s.permissions}
	if s.configFile != "" {
		out = append(out, s.configFile)
	}
	return out
}

func (s *stack) openShell(_ context.Context, j *jobs) (map[string]bus.Endpoint, error) {
	secrets := s.secretFile
	if dir := filepath.Dir(secrets); filepath.Base(dir) == ".harness" {
		secrets = dir // all in it is the harness's, tokens too
	}
	w, err := shell.New(shell.Deps{
		Root: s.workDir, Protected: []string{s.data, secrets}, ReadOnly: s.rules(), Channels: s.channels, Blobs: s.db.Blobs(), Clock: s.clock, Logger: s.logger,
		Environ: s.environ, SecretEnv: credential.Names(), Config: s.config.WorkerConfig("shell"),
	})
	if err != nil {
		return nil, err
	}
	j.closers = append(j.closers, func(context.Context) error { return w.Close() })
	return w.Endpoints(), nil
}

func (s *stack) openDemo(context.Context, *jobs) (map[string]bus.Endpoint, error) {
	return demo.New(s.clock).Endpoints(), nil
}

// openCore makes the turn, the fan-out and the policy, which cannot be removed.
func (s *stack) openCore(ctx context.Context, j *jobs) error {
	rules, err := s.openPolicy(ctx)
	if err != nil {
		return err
	}
	hub, err := viewer.New(viewer.Deps{
		State: s.db.State(), Stream: s.db.Streams(), Blobs: s.db.Blobs(), Poster: s.router, Clock: s.clock, IDs: s.ids, Logger: s.logger,
		Config: viewer.Config{Alone: true},
	})
	if err != nil {
		return err
	}
	j.viewers = hub
	j.closers = append(j.closers, hub.Close)
	out, err := fanout.New(fanout.Deps{
		State: s.db.State(), Bus: s.router.Worker("harness"), Hub: hub, Poster: s.router, Channels: s.channels, Logger: s.logger, Policy: rules,
	})
	if err != nil {
		return err
	}
	j.endpoints["harness"], j.fanout = out.Endpoints(), out
	j.provider = s.defaultProvider(ctx)
	options := s.turnConfig(j.provider)
	if s.tune != nil {
		s.tune(&options)
	}
	var queues queue.Queue = s.queues
	if s.wrapQueue != nil {
		queues = s.wrapQueue(queues)
	}
	w, err := turn.New(turn.Deps{
		State: s.db.State(), Stream: s.db.Streams(), Queue: queues, Timers: s.timers, Blobs: s.db.Blobs(), Channels: s.channels,
		Bus: s.router.Worker("turn-orchestrator"), Directory: s.registry, Viewer: turnViewer{hub}, Clock: s.clock, IDs: s.ids,
		Logger: s.logger, Config: options, Stats: s.stats,
	})
	if err != nil {
		return err
	}
	j.endpoints["turn-orchestrator"] = w.Endpoints()
	return nil
}

// gone ends the subscriptions of a connection that is gone for good. Sockets
// come and go between start and close, when the workers are there.
func (s *stack) gone(connection string) {
	if err := errors.Join(s.jobs.viewers.Forget(s.ctx, connection), s.jobs.fanout.Forget(s.ctx, connection)); err != nil {
		s.logger.Warn("subscriptions of a lost connection not removed", "connection", connection, "error", err)
	}
}

// turnViewer gives the hub to the turn.
type turnViewer struct{ hub *viewer.Hub }

func (v turnViewer) Open(session string, lease int64) turn.ViewerSession {
	return v.hub.Open(session, lease)
}

func (s *stack) turnConfig(provider string) turn.Config {
	c := s.config.Turn
	return turn.Config{
		Shards: c.Shards, MaxParallelCalls: c.MaxParallelCalls, ResultTextLimit: c.ResultTextLimit, DefaultProvider: provider, Local: true,
		SystemDefaultSkills: c.SystemDefaultSkills, CoalesceWindow: c.CoalesceWindow, PolicyNone: s.config.Policy == config.PolicyNone,
		RequiredHooks: s.config.Hooks.Required, ApprovalExpiresAfter: s.config.Approval.ExpiresAfter,
	}
}

// defaultProvider is who is asked when nobody is named: the configured one, a
// listed one that has a credential, or the scripted model.
func (s *stack) defaultProvider(ctx context.Context) string {
	if s.config.DefaultProvider != "" {
		return s.config.DefaultProvider
	}
	creds, err := credential.New(credential.Deps{Secrets: s.secrets, Getenv: s.getenv})
	if err == nil {
		for _, worker := range s.config.Names() {
			name, ok := strings.CutPrefix(worker, "provider-")
			if !ok || name == scripted.Name {
				continue
			}
			if st, err := creds.Status(ctx, name); err == nil && st.Configured {
				return name
			}
		}
	}
	if slices.Contains(s.config.Names(), "provider-scripted") {
		s.logger.Info("no provider has a credential: the scripted model answers", "default_provider", scripted.Name)
		return scripted.Name
	}
	return ""
}
