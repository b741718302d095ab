package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/gateway"
	"github.com/iii-aws/harness/engine/telemetry"
)

// drainLimit is how long dev may take to end.
const drainLimit = 9 * time.Second

// dev runs the whole harness until it is told to end.
func (a *app) dev(ctx context.Context, fl devFlags) error {
	log := a.logger("")
	cfg, err := a.load(fl, log)
	if err != nil {
		return err
	}
	if cfg.Telemetry.LogLevel != "" && a.getenv("LOG_LEVEL") == "" {
		log = a.logger(cfg.Telemetry.LogLevel)
	}
	work, err := os.Getwd()
	if err != nil {
		return err
	}
	tel, err := telemetry.New(ctx, telemetry.Options{Service: "harness", Version: version, Endpoint: cfg.Telemetry.Endpoint, Getenv: a.getenv})
	if err != nil {
		return err
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := tel.Close(flush); err != nil {
			log.Warn("spans were lost", "error", err)
		}
	}()
	busListener, err := listen(ctx, "addr", fl.addr)
	if err != nil {
		return err
	}
	defer busListener.Close()
	httpListener, err := listen(ctx, "http", fl.http)
	if err != nil {
		return err
	}
	defer httpListener.Close()
	s, err := openStack(ctx, stackOptions{
		config: cfg, configFile: fl.config, permissions: fl.permissions, permissionsDefault: fl.permissions == "iii-permissions.yaml",
		data: a.data, workDir: work, requireToken: fl.requireToken, httpURL: "http://" + httpListener.Addr().String(), strict: fl.gateway(), getenv: a.getenv, environ: a.environ,
		clock: a.clock, ids: a.ids, logger: log, telemetry: tel,
	})
	if err != nil {
		return explainStart(err)
	}
	return a.serve(ctx, s, fl, busListener, httpListener)
}

// serve runs an opened stack on its listeners.
func (a *app) serve(ctx context.Context, s *stack, fl devFlags, busListener, httpListener net.Listener) (err error) {
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, s.close(context.Background()))
		}
	}()
	token, err := operatorToken(fl.token, s.tokens)
	if err != nil {
		return err
	}
	line := ready{
		Bus: "ws://" + busListener.Addr().String() + "/", HTTP: "http://" + httpListener.Addr().String(), Token: token, Data: a.data,
		PID: os.Getpid(), Version: version, Provider: s.jobs.provider, Workers: s.config.Names(), Models: s.jobs.models,
	}
	if fl.strict {
		line.Stage = "/" + strictStage
		line.Bus += strictStage
		s.logger.Info("strict: frames of a connection are handled in no order", "HARNESS_STRICT_SEED", fl.seed)
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	servers := []*http.Server{
		gateway.HTTPServer(s.busHandler()),
		s.httpServer(httpListener),
	}
	failed := make(chan error, len(servers))
	for i, l := range []net.Listener{busListener, httpListener} {
		go func() {
			if err := servers[i].Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	remove, err := writeReady(a.data, b)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, "ready %s\n", b); err != nil {
		return errors.Join(err, remove())
	}
	select {
	case <-ctx.Done():
		s.logger.Info("ending: no new work is taken")
	case err = <-failed:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	errs := []error{err, remove()}
	for _, srv := range servers {
		srv.SetKeepAlivesEnabled(false)
	}
	stopped = true
	if serr := s.stop(drain); serr != nil {
		s.logger.Warn("not everything ended cleanly", "error", serr)
	}
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	return errors.Join(errs...)
}

// gateway is how strictly the bus is served; nil without --strict.
func (fl devFlags) gateway() *gateway.Strict {
	if !fl.strict {
		return nil
	}
	return &gateway.Strict{Stage: strictStage, Seed: fl.seed}
}

// explainStart turns what stops a start into one line that says what to do.
func explainStart(err error) error {
	f := &failure{code: "start_failed", message: err.Error(), exit: exitFailed, err: err}
	var locked *embedded.LockedError
	var folder *embedded.FolderError
	var corrupt *embedded.CorruptError
	switch {
	case errors.As(err, &locked):
		f.code = "data_in_use"
		f.hint = "stop the other server, or give this one a folder of its own with --data"
	case errors.As(err, &folder):
		f.code = "bad_data_folder"
		f.hint = "allowed for --data: a folder that this user may write"
	case errors.As(err, &corrupt):
		f.code = "data_corrupt"
		f.hint = "the file was not changed; restore a copy, or start with another --data folder: " + filepath.Join(".", "harness-new")
	}
	return f
}
