package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// ready is the line that dev prints, and the file that clients find it by.
type ready struct {
	Bus      string            `json:"bus"`
	HTTP     string            `json:"http"`
	Stage    string            `json:"stage"`
	Token    string            `json:"token"`
	Data     string            `json:"data"`
	PID      int               `json:"pid"`
	Version  string            `json:"version"`
	Provider string            `json:"provider"`
	Workers  []string          `json:"workers"`
	Models   map[string]string `json:"models,omitempty"`
}

const readyFile = "dev.json"

// readReady is what a running dev wrote; nil if there is none.
func readReady(data string) (*ready, error) {
	b, err := os.ReadFile(filepath.Join(data, readyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r ready
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(data, readyFile), err)
	}
	return &r, nil
}

// server is where the bus is, by flag, environment or file.
func (a *app) server() (url, token string, dev *ready, err error) {
	url, token = a.url, a.token
	if url == "" {
		url = a.getenv("HARNESS_URL")
	}
	if token == "" {
		token = a.getenv("HARNESS_TOKEN")
	}
	dev, err = readReady(a.data)
	if err != nil {
		return "", "", nil, &failure{code: "bad_dev_file", message: err.Error(), exit: exitFailed, hint: "restart harness dev, or pass --url", err: err}
	}
	if dev != nil && (url == "" || url == dev.Bus) {
		url = dev.Bus
		if token == "" {
			token = dev.Token
		}
		return url, token, dev, nil
	}
	if url == "" {
		return "", "", nil, &failure{code: "unreachable", message: fmt.Sprintf("no running server: %s does not exist", filepath.Join(a.data, readyFile)), exit: exitUnreachable,
			hint: "start one with: harness dev; or name one with --url"}
	}
	return url, token, nil, nil
}

// connect dials the bus. Reconnecting clients come back after a loss.
func (a *app) connect(ctx context.Context, onConnect func(context.Context, bool)) (*client.Client, *ready, error) {
	url, token, dev, err := a.server()
	if err != nil {
		return nil, nil, err
	}
	dial, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	given := a.token != "" || a.getenv("HARNESS_TOKEN") != ""
	opts := client.Options{
		URL: url, Token: token, Version: version, Name: "harness-cli", Clock: a.clock, IDs: a.ids, OnConnect: onConnect,
		OnLost: func(error) { fmt.Fprintln(a.stderr, "connection lost, reconnecting") },
		// A token that somebody gave stays refused.
		GiveUp: func(err error) bool {
			var refused *client.ConnectError
			return (given || dev == nil) && errors.As(err, &refused) && refused.Unauthorized()
		},
	}
	if dev != nil {
		// A server that was started anew has another token, and maybe another port.
		opts.Where = func(context.Context) (string, string, error) {
			url, token, _, err := a.server()
			return url, token, err
		}
	}
	c, err := client.Dial(dial, opts)
	return c, dev, err
}

// invoke connects, calls one function and decodes its result.
func (a *app) invoke(ctx context.Context, functionID string, payload, result any) error {
	c, _, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	return call(ctx, c, functionID, payload, result)
}

func call(ctx context.Context, c bus.Invoker, functionID string, payload, result any) error {
	data, err := bus.Encode(payload)
	if err != nil {
		return err
	}
	out, err := c.Invoke(ctx, bus.Invocation{FunctionID: functionID, Data: data})
	if err != nil || result == nil {
		return err
	}
	if len(out) == 0 {
		out = json.RawMessage("null")
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("%s answered something unexpected: %w", functionID, err)
	}
	return nil
}
