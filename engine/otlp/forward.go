package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iii-aws/harness/engine/redact"
)

const (
	// maxWaiting is how many messages wait to be forwarded.
	maxWaiting = 64
	// forwardFor is how long one may take.
	forwardFor = 10 * time.Second
)

// Forwarder posts spans to an OTLP/HTTP endpoint, in order, one at a time.
type Forwarder struct {
	url     string
	client  *http.Client
	log     *slog.Logger
	queue   chan []byte
	dropped atomic.Int64
	cancel  context.CancelFunc
	done    chan struct{}
	once    sync.Once
}

// NewForwarder makes a Forwarder to the endpoint of a collector; without a path
// it posts to /v1/traces. Close it when done.
func NewForwarder(endpoint string, client *http.Client, log *slog.Logger) (*Forwarder, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("otlp: endpoint %q is not an http or https URL", redact.Text(endpoint))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	if client == nil {
		client = http.DefaultClient
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Forwarder{url: u.String(), client: client, log: log, queue: make(chan []byte, maxWaiting), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.run(ctx)
	return f, nil
}

// Send gives a payload to be posted, with what looks like a secret covered. It
// does not wait: when too many wait, the oldest is dropped.
func (f *Forwarder) Send(payload []byte) {
	covered, err := cover(payload)
	if err != nil {
		f.dropped.Add(1)
		return
	}
	for {
		select {
		case f.queue <- covered:
			return
		default:
		}
		select {
		case <-f.queue:
			f.dropped.Add(1)
		default:
		}
	}
}

// Dropped is how many payloads were not posted.
func (f *Forwarder) Dropped() int64 { return f.dropped.Load() }

func (f *Forwarder) run(ctx context.Context) {
	defer close(f.done)
	for {
		select {
		case b := <-f.queue:
			if err := f.post(ctx, b); err != nil && ctx.Err() == nil {
				f.dropped.Add(1)
				f.log.Debug("spans not forwarded", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (f *Forwarder) post(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, forwardFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)); err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("otlp: the collector answered %d", res.StatusCode)
	}
	return nil
}

// Close stops; what waits is dropped.
func (f *Forwarder) Close() error {
	f.once.Do(f.cancel)
	<-f.done
	return nil
}
