package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/telemetry"
	"github.com/iii-aws/harness/functions"
	"github.com/iii-aws/harness/internal/config"
)

// devFlags are the flags of dev.
type devFlags struct {
	addr, http, config, permissions, token string
	requireToken, strict                   bool
	seed                                   uint64 // of strict
}

func (a *app) devCommand() *cobra.Command {
	var fl devFlags
	c := &cobra.Command{Use: "dev", Short: "Run the whole harness in this process", Args: exactly(),
		Long: `Runs the bus and every built-in worker in this process, with all data in one
folder. It needs no account, no key and no other program. When it serves it
prints one line, "ready " and a JSON object, on stdout; logs go to stderr.
Stop it with Ctrl-C: running turns stop at their next stored step and go on
when it is started again.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.dev(c.Context(), fl) }}
	f := c.Flags()
	f.StringVar(&fl.addr, "addr", "127.0.0.1:49134", "address of the bus; port 0 picks a free one")
	f.StringVar(&fl.http, "http", "127.0.0.1:3111", "address of the HTTP side; port 0 picks a free one")
	f.StringVar(&fl.config, "config", "config.yaml", "which workers serve, and how")
	f.StringVar(&fl.permissions, "permissions", "iii-permissions.yaml", "what agents may call without asking")
	f.BoolVar(&fl.requireToken, "require-token", false, "refuse connections without a token, from this machine too")
	f.BoolVar(&fl.strict, "strict", false, "behave as API Gateway does: path /"+strictStage+" only, tokens, its limits of size and time, frames in no order")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		fl.token = a.token
		if fl.token == "" {
			fl.token = a.getenv("HARNESS_TOKEN")
		}
		if fl.token != "" && len(fl.token) < 16 {
			return usagef("--token must have at least 16 characters")
		}
		return a.strictSeed(&fl)
	}
	return c
}

// strictStage is the stage of the address with --strict.
const strictStage = "dev"

// strictSeed decides in which order frames are handled with --strict: a fresh
// one, or that of a run to be repeated.
func (a *app) strictSeed(fl *devFlags) error {
	text := a.getenv("HARNESS_STRICT_SEED")
	if text == "" {
		var b [8]byte
		if _, err := a.ids.Read(b[:]); err != nil {
			return err
		}
		fl.seed = binary.BigEndian.Uint64(b[:])
		return nil
	}
	var err error
	if fl.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
		return usagef("HARNESS_STRICT_SEED is %q; allowed: a number from 0 to 18446744073709551615", text)
	}
	return nil
}

// load reads what the flags name. A file that was named must be there; the
// default ones may be missing.
func (a *app) load(fl devFlags, log *slog.Logger) (config.Config, error) {
	manifests, err := functions.Manifests()
	if err != nil {
		return config.Config{}, err
	}
	known := make([]string, len(manifests))
	for i, m := range manifests {
		known[i] = m.Name
	}
	if fl.config == "config.yaml" && missing(fl.config) {
		log.Info("no config.yaml here: every built-in worker serves, with its defaults")
		return config.Default(known), nil
	}
	return config.Load(fl.config, known)
}

func missing(file string) bool {
	_, err := os.Stat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// logger makes the process's logger: text for people, JSON with --json.
func (a *app) logger(level string) *slog.Logger {
	if level == "" {
		level = a.getenv("LOG_LEVEL")
	}
	l := slog.LevelInfo
	if level != "" {
		if err := l.UnmarshalText([]byte(level)); err != nil {
			l = slog.LevelInfo
		}
	}
	return telemetry.NewLogger(a.stderr, l, a.json)
}

// listen opens an address, or says who to ask.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	f := &failure{code: "listen_failed", message: "--" + flag + " " + addr + ": " + err.Error(), exit: exitFailed, err: err,
		hint: "is a server running already? allowed: a free host:port such as 127.0.0.1:0"}
	return nil, f
}

// operatorToken is the token of this process: the given one, else a fresh one.
func operatorToken(given string, tokens *access.Tokens) (string, error) {
	secret := given
	if secret == "" {
		var err error
		if secret, err = tokens.Secret(); err != nil {
			return "", err
		}
	}
	tokens.Fix(secret, access.Operator())
	return secret, nil
}

// writeReady leaves what clients find the server by.
func writeReady(dir string, b []byte) (remove func() error, err error) {
	path := filepath.Join(dir, readyFile)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, err
	}
	return func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}
