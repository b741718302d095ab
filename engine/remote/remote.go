package remote

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

// Limits of a call.
const (
	DefaultTimeout = 30 * time.Second
	MaxTimeout     = 15 * time.Minute
	// MaxBody is how large an answer may be, in bytes.
	MaxBody = 20 << 20
	// MaxConcurrent is how many requests run at a time.
	MaxConcurrent = 128
)

// Config is what a Caller needs.
type Config struct {
	Clock clock.Clock
	// Getenv reads the variables that auth names; an empty one counts as absent.
	Getenv func(string) string
	// Keys are the variables that auth may name: whole names, or beginnings that end in a star. None allows none.
	Keys []string
	// PlainHTTP allows URLs of the scheme http too.
	PlainHTTP bool
	// Networks may be reached although they are not public.
	Networks []netip.Prefix
}

// Caller makes the requests. It is safe for concurrent use, and implements router.Remote.
type Caller struct {
	cfg       Config
	reach     reach
	transport *http.Transport
	slots     chan struct{}
}

// New is a Caller. Close it when it is no longer needed. The error names a bad entry of Keys.
func New(cfg Config) (*Caller, error) {
	if cfg.Clock == nil || cfg.Getenv == nil {
		return nil, errors.New("remote: Clock and Getenv are required")
	}
	for _, key := range cfg.Keys {
		if err := CheckKey(key); err != nil {
			return nil, err
		}
	}
	c := &Caller{cfg: cfg, reach: reach{cfg.Networks}, slots: make(chan struct{}, MaxConcurrent)}
	c.transport = newTransport(c.reach, nil)
	return c, nil
}

// Close ends the connections that are kept for later requests.
func (c *Caller) Close() { c.transport.CloseIdleConnections() }

// Check refuses an invocation object that could not be used: with an error that names the member and what is
// allowed, or with url_validation_failed or secret_not_found. It resolves no name.
func (c *Caller) Check(raw json.RawMessage) error {
	inv, err := c.parse(raw)
	if err != nil {
		return err
	}
	_, err = c.secret(inv.Auth)
	return err
}

// Call makes the request of a function and reads its answer. Errors are *bus.Error with the codes of the package
// comment; for an ended ctx, http_request_failed.
func (c *Caller) Call(ctx context.Context, raw json.RawMessage, call *bus.Call) (json.RawMessage, error) {
	inv, err := c.parse(raw)
	if err != nil {
		return nil, bus.AsError(err)
	}
	secret, err := c.secret(inv.Auth)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.limit(ctx, inv.timeout())
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, requestFailed(ctx, inv, ctx.Err())
	}
	req, err := c.request(ctx, inv, secret, call)
	if err != nil {
		return nil, err
	}
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, requestFailed(ctx, inv, err)
	}
	return answer(ctx, inv, res)
}

// limit ends ctx after d.
func (c *Caller) limit(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.cfg.Clock.NewTimer(d)
	go func() {
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
