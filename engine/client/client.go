package client

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/internal/outbox"
	"github.com/iii-aws/harness/engine/protocol"
)

// Options configure a client. URL is required.
type Options struct {
	// URL is the bus URL, ws:// or wss://, with the stage path on AWS.
	URL   string
	Token string
	// Headers go into the request of every connect, after Token: a fresh
	// Authorization, for example. An error counts as a failed connect.
	Headers func(ctx context.Context) (http.Header, error)
	// Where is asked before every connect but the first, for a server that may
	// be somewhere else, or know another token, by then. An error counts as a
	// failed connect.
	Where func(ctx context.Context) (url, token string, err error)
	// OnLost runs when the connection is lost, before the first try to come
	// back.
	OnLost func(err error)
	// GiveUp ends the client after a failed connect; nil tries for ever.
	GiveUp func(err error) bool
	// Name is announced; empty is host name and pid.
	Name    string
	Version string
	// Once: do not come back after a loss.
	Once       bool
	Clock      clock.Clock
	IDs        clock.IDs
	Logger     *slog.Logger
	HTTPClient *http.Client
	// OnConnect runs after every connect, when the registrations are on their
	// way. first is true for the first one.
	OnConnect func(ctx context.Context, first bool)
}

// Client is one connection to a bus, kept up.
type Client struct {
	opts Options
	url  string
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
	out  *outbox.Box[outgoing]
	ran  *memory

	mu        sync.Mutex
	conn      *session      // nil while there is none
	up        chan struct{} // closed when conn is set, replaced when it is lost
	closing   chan struct{} // closed when Close is called
	closeOnce sync.Once
	pending   map[string]*pendingCall
	functions map[string]served
	order     []string
	previous  *protocol.WorkerRegistered
	err       error
	done      chan struct{}
}

// served is a function and, if its calls are to run in order, their line.
type served struct {
	bus.Endpoint
	line *line
}

type pendingCall struct {
	functionID string
	result     chan result
	sent       bool
}

type result struct {
	value json.RawMessage
	err   error
}

// Dial makes the first connection. Errors: *ConnectError.
func Dial(ctx context.Context, opts Options) (*Client, error) {
	if opts.Clock == nil {
		opts.Clock = clock.System()
	}
	if opts.IDs == nil {
		opts.IDs = clock.Random()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		opts.Name = host + ":" + strconv.Itoa(os.Getpid())
	}
	c := &Client{opts: opts, up: make(chan struct{}), closing: make(chan struct{}), pending: map[string]*pendingCall{}, functions: map[string]served{},
		out: outbox.New[outgoing](protocol.OutboundQueue, protocol.MaxMessage), ran: newMemory(opts.Clock), done: make(chan struct{})}
	var err error
	if c.url, err = chunked(opts.URL); err != nil {
		return nil, &ConnectError{URL: opts.URL, Err: err}
	}
	c.base, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	ws, err := c.dial(ctx, c.url, opts.Token)
	if err != nil {
		c.stop()
		return nil, err
	}
	c.wg.Add(1)
	go c.run(ws)
	return c, nil
}

// chunked is the address that asks for chunk frames.
func chunked(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("not an address")
	}
	q := u.Query()
	q.Set("chunks", "1")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (c *Client) dial(ctx context.Context, to, token string) (*websocket.Conn, error) {
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if c.opts.Headers != nil {
		more, err := c.opts.Headers(ctx)
		if err != nil {
			return nil, &ConnectError{URL: to, Err: err}
		}
		for name, values := range more {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	ws, resp, err := websocket.Dial(ctx, to, &websocket.DialOptions{HTTPHeader: header, HTTPClient: c.opts.HTTPClient})
	if err != nil {
		e := &ConnectError{URL: to, Err: err}
		if resp != nil {
			e.Status = resp.StatusCode
		}
		return nil, e
	}
	ws.SetReadLimit(protocol.MaxMessage)
	return ws, nil
}

// Done is closed when the client has ended for good.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the client ended: ErrClosed, or the loss of a connection that
// was not to come back.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the client and waits for its goroutines. What was queued is sent
// first if there is a connection that takes it. Pending calls fail.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		select {
		case <-c.done:
		case <-time.After(closeLimit):
		}
		c.stop()
	})
	c.wg.Wait()
	return nil
}

// closeLimit is how long a Close waits for the connection to take what is
// queued.
const closeLimit = 5 * time.Second

// Handle serves a function, now and after every reconnect. Its calls run
// concurrently.
func (c *Client) Handle(id string, e bus.Endpoint) { c.serveFunction(id, served{Endpoint: e}) }

// HandleInOrder serves a function whose calls run one at a time, in the order
// in which they arrived.
func (c *Client) HandleInOrder(id string, e bus.Endpoint) {
	c.serveFunction(id, served{Endpoint: e, line: &line{}})
}

func (c *Client) serveFunction(id string, e served) {
	c.mu.Lock()
	if _, ok := c.functions[id]; !ok {
		c.order = append(c.order, id)
	}
	c.functions[id] = e
	connected := c.conn != nil
	c.mu.Unlock()
	if connected { // else it is registered with the others when there is a connection
		c.tell(register(id, e.Endpoint))
	}
}

// Unhandle stops serving a function.
func (c *Client) Unhandle(id string) {
	c.mu.Lock()
	delete(c.functions, id)
	for i, o := range c.order {
		if o == id {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			break
		}
	}
	connected := c.conn != nil
	c.mu.Unlock()
	if connected {
		c.tell(&protocol.UnregisterFunction{ID: id})
	}
}

func register(id string, e bus.Endpoint) protocol.Frame {
	return &protocol.RegisterFunction{ID: id, RequestFormat: e.Request, ResponseFormat: e.Response}
}

func (c *Client) announce() protocol.Frame {
	data, err := bus.Encode(map[string]any{
		"runtime": "go", "version": c.opts.Version, "name": c.opts.Name, "os": runtime.GOOS + " (" + runtime.GOARCH + ")",
		"pid": os.Getpid(), "isolation": nil,
	})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return &protocol.InvokeFunction{FunctionID: "engine::workers::register", Data: data, Action: &protocol.Action{Type: protocol.ActionVoid}}
}
