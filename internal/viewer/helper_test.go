package viewer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// world is a data folder, the connections, and a hub over them.
type world struct {
	t     *testing.T
	db    *embedded.DB
	state state.Store
	conns *connections
	hub   *Hub
	ctx   context.Context
	log   *bytes.Buffer
	mu    sync.Mutex // guards log
	n     int
}

func newWorld(t *testing.T, change ...func(*Deps)) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	db, err := embedded.Open(ctx, embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, db: db, state: db.State(), conns: newConnections(t), ctx: ctx, log: &bytes.Buffer{}}
	w.hub = w.newHub(change...)
	return w
}

// newHub is one more process over the same data and connections.
func (w *world) newHub(change ...func(*Deps)) *Hub {
	w.t.Helper()
	d := Deps{
		State: w.state, Stream: w.db.Streams(), Blobs: w.db.Blobs(), Poster: w.conns,
		Clock: clock.System(), IDs: clock.Random(), Logger: slog.New(slog.NewTextHandler(w, nil)),
	}
	for _, c := range change {
		c(&d)
	}
	h, err := New(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.conns.openAll()
		if err := h.Close(w.ctx); err != nil {
			w.t.Errorf("close: %v", err)
		}
	})
	return h
}

// Write takes the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// append stores events of the given types and gives the head.
func (w *world) append(session string, types ...string) stream.Head {
	w.t.Helper()
	var datas []json.RawMessage
	for _, ty := range types {
		w.n++
		datas = append(datas, json.RawMessage(fmt.Sprintf(`{"type":%q,"n":%d}`, ty, w.n)))
	}
	return w.appendRaw(session, datas...)
}

func (w *world) appendRaw(session string, datas ...json.RawMessage) stream.Head {
	w.t.Helper()
	a := stream.Append{Stream: agent.StreamEvents, Group: session, Base: -1}
	for _, d := range datas {
		a.Events = append(a.Events, stream.LogEvent{ID: clock.Random().UUID(), Data: d})
	}
	got, err := w.db.Streams().SubmitAppend(w.ctx, a).Wait(w.ctx)
	w.ok(err)
	return stream.Head{Tail: got.Seqs[len(got.Seqs)-1], Epoch: got.Epoch}
}

// events is the whole log as it is stored.
func (w *world) events(session string) []string {
	w.t.Helper()
	items, err := w.db.Streams().List(w.ctx, agent.StreamEvents, session)
	w.ok(err)
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = string(it.Data)
	}
	return out
}

func (w *world) own(session, owner string) {
	w.t.Helper()
	data := json.RawMessage(fmt.Sprintf(`{"session_id":%q,"owner":%q}`, session, owner))
	_, err := state.Do(w.ctx, w.state, state.Set(agent.ScopeSessionTreeMeta, session, data))
	w.ok(err)
}

func (w *world) subscribe(h *Hub, sub Subscription) Subscribed {
	w.t.Helper()
	got, err := h.Subscribe(w.ctx, sub)
	w.ok(err)
	return got
}

// row reads the stored row of a subscription.
func (w *world) row(sub Subscription) (Row, bool) {
	w.t.Helper()
	r, ok, err := w.hub.row(w.ctx, Row{BrowserID: sub.Browser, Connection: sub.Connection, SessionID: sub.Session})
	w.ok(err)
	return r.Row, ok
}

// waitRow waits until the stored row is as f wants it.
func (w *world) waitRow(sub Subscription, what string, f func(r Row, ok bool) bool) {
	w.t.Helper()
	scope, key := agent.ScopeSubscriptions+sub.Session, Row{BrowserID: sub.Browser, Connection: sub.Connection, SessionID: sub.Session}.key()
	for range w.state.Watch(w.ctx, state.Key{Scope: scope, Key: key}) {
		if f(w.row(sub)) {
			return
		}
	}
	w.t.Fatalf("%s: never came", what)
}

func sub(browser, connection, session string) Subscription {
	return Subscription{Browser: browser, Connection: connection, Session: session, Principal: bus.Principal{ID: "u", Role: bus.RoleClient}}
}

func (s Subscription) from(seq int64) Subscription {
	s.Position = &Position{Seq: seq}
	return s
}

func (s Subscription) batched() Subscription {
	s.Batch = true
	return s
}

func (s Subscription) operator() Subscription {
	s.Principal = bus.Principal{ID: "op", Role: bus.RoleOperator}
	return s
}

// got is one event or delta as a connection got it.
type got struct {
	Function string
	Session  string
	Epoch    string
	Seq      int64 // -1 for a delta
	Rev      int64
	Event    string
	Size     int // of the push
	First    bool
}

func (g got) update(t *testing.T) agent.MessageUpdate {
	t.Helper()
	var u agent.MessageUpdate
	if err := json.Unmarshal([]byte(g.Event), &u); err != nil {
		t.Fatalf("delta %s: %v", g.Event, err)
	}
	if u.Rev != g.Rev {
		t.Errorf("rev of the push is %d, of the update %d", g.Rev, u.Rev)
	}
	return u
}

// connections is a poster with hand-made faults.
type connections struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]*connection
	// changed is closed at every push and refusal.
	changed chan struct{}
	limit   int
}

type connection struct {
	pushes   []got
	posts    int // attempts
	gone     bool
	refuses  map[string]bool // function ids that are not registered
	failures []error
	blocked  chan struct{} // posts wait until it is closed
	waiting  int           // posts that wait
	inFlight int
}

func newConnections(t *testing.T) *connections {
	return &connections{t: t, by: map[string]*connection{}, changed: make(chan struct{})}
}

func (c *connections) get(id string) *connection {
	if c.by[id] == nil {
		c.by[id] = &connection{refuses: map[string]bool{}}
	}
	return c.by[id]
}

func (c *connections) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *connections) with(id string, f func(*connection)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.get(id))
	c.signal()
}

// block makes posts to a connection wait until the func is called.
func (c *connections) block(id string) (open func()) {
	gate := make(chan struct{})
	c.with(id, func(n *connection) { n.blocked = gate })
	return func() {
		c.with(id, func(n *connection) {
			if n.blocked == gate {
				n.blocked = nil
				close(gate)
			}
		})
	}
}

func (c *connections) openAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.by {
		if n.blocked != nil {
			close(n.blocked)
			n.blocked = nil
		}
	}
}

func (c *connections) Post(ctx context.Context, p bus.Push) error {
	c.mu.Lock()
	n := c.get(p.Connection)
	n.posts++
	n.inFlight++
	if n.inFlight > 1 {
		c.t.Errorf("%d posts in flight to %s", n.inFlight, p.Connection)
	}
	gate := n.blocked
	if gate != nil {
		n.waiting++
	}
	c.signal()
	c.mu.Unlock()
	var err error
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	n.inFlight--
	if gate != nil {
		n.waiting--
	}
	switch {
	case err != nil:
		return err
	case n.gone:
		return fmt.Errorf("fake: %w", bus.ErrGone)
	case n.refuses[p.FunctionID]:
		return fmt.Errorf("fake: %w", bus.ErrNotRegistered)
	case c.limit > 0 && len(p.Data) > c.limit:
		return fmt.Errorf("fake: %w", bus.ErrTooLarge)
	case len(n.failures) > 0:
		err, n.failures = n.failures[0], n.failures[1:]
		if err != nil {
			return err
		}
	}
	n.pushes = append(n.pushes, c.parse(p)...)
	return nil
}

func (c *connections) parse(p bus.Push) []got {
	type one struct {
		Seq   *int64          `json:"seq"`
		Rev   *int64          `json:"rev"`
		Event json.RawMessage `json:"event"`
	}
	var d struct {
		Session string `json:"session_id"`
		Epoch   string `json:"epoch"`
		one
		Events []one `json:"events"`
	}
	if err := json.Unmarshal(p.Data, &d); err != nil {
		c.t.Errorf("push %s: %v", p.Data, err)
		return nil
	}
	if strings.HasPrefix(p.FunctionID, "ui::sessions::changed::") {
		return []got{{Function: p.FunctionID, Event: string(p.Data), First: true}}
	}
	if d.Events == nil {
		d.Events = []one{d.one}
	}
	var out []got
	for i, e := range d.Events {
		g := got{Function: p.FunctionID, Session: d.Session, Epoch: d.Epoch, Seq: -1, Event: string(e.Event), Size: len(p.Data), First: i == 0}
		if e.Seq != nil {
			g.Seq = *e.Seq
		}
		if (e.Rev != nil) != (e.Seq == nil) {
			c.t.Errorf("push %s: rev belongs to deltas", p.Data)
		}
		if e.Rev != nil {
			g.Rev = *e.Rev
		}
		out = append(out, g)
	}
	return out
}

// wait waits until what a connection got is as f wants it, and gives it.
func (w *world) wait(id, what string, f func(*connection) bool) []got {
	w.t.Helper()
	for {
		w.conns.mu.Lock()
		n := w.conns.get(id)
		done, changed, pushes := f(n), w.conns.changed, append([]got(nil), n.pushes...)
		w.conns.mu.Unlock()
		if done {
			return pushes
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			w.t.Fatalf("%s: never came; %s got %+v\n%s", what, id, pushes, w.logged())
		}
	}
}

// waitSeq waits until a connection got the event of a sequence.
func (w *world) waitSeq(id string, seq int64) []got {
	w.t.Helper()
	return w.wait(id, fmt.Sprintf("event %d", seq), func(n *connection) bool {
		for _, g := range n.pushes {
			if g.Seq == seq {
				return true
			}
		}
		return false
	})
}

// got is what a connection got so far.
func (w *world) got(id string) []got {
	return w.wait(id, "", func(*connection) bool { return true })
}

// seqs is the sequences of events, in the order they came.
func seqs(gs []got) []int64 {
	out := []int64{}
	for _, g := range gs {
		if g.Seq >= 0 {
			out = append(out, g.Seq)
		}
	}
	return out
}

func upTo(from, through int64) []int64 {
	out := []int64{}
	for i := from; i <= through; i++ {
		out = append(out, i)
	}
	return out
}

// writer makes the updates of one message, as a turn does.
type writer struct {
	message string
	attempt int64
	rev     int64
	block   int
	offset  int
	text    string // of all text blocks
}

func (m *writer) update(e agent.LLMEvent) agent.MessageUpdate {
	m.rev++
	return agent.MessageUpdate{
		Type: agent.EventMessageUpdate, MessageID: m.message, Attempt: m.attempt, Rev: m.rev, Block: m.block, Offset: m.offset, LLMEvent: e,
	}
}

func (m *writer) delta(text string) agent.MessageUpdate {
	u := m.update(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: text})
	m.offset += len([]rune(text))
	m.text += text
	return u
}

// failingState fails what its funcs fail.
type failingState struct {
	state.Store
	mu   sync.Mutex
	list func(scope string) error
	get  func(key state.Key) error
}

func (f *failingState) hooks() (func(string) error, func(state.Key) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list, f.get
}

func (f *failingState) List(ctx context.Context, scope string, o state.ListOptions) ([]state.Item, error) {
	if list, _ := f.hooks(); list != nil {
		if err := list(scope); err != nil {
			return nil, err
		}
	}
	return f.Store.List(ctx, scope, o)
}

func (f *failingState) Get(ctx context.Context, key state.Key, o ...state.ReadOption) (state.Item, bool, error) {
	if _, get := f.hooks(); get != nil {
		if err := get(key); err != nil {
			return state.Item{}, false, err
		}
	}
	return f.Store.Get(ctx, key, o...)
}

// failingStream fails reads as long as it has errors.
type failingStream struct {
	stream.Store
	mu    sync.Mutex
	reads []error
	heads []error
}

func (f *failingStream) next(list *[]error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*list) == 0 {
		return nil
	}
	err := (*list)[0]
	*list = (*list)[1:]
	return err
}

func (f *failingStream) Read(ctx context.Context, s, g string, from int64, limit, maxBytes int) ([]stream.Item, error) {
	if err := f.next(&f.reads); err != nil {
		return nil, err
	}
	return f.Store.Read(ctx, s, g, from, limit, maxBytes)
}

func (f *failingStream) Head(ctx context.Context, s, g string) (stream.Head, error) {
	if err := f.next(&f.heads); err != nil {
		return stream.Head{}, err
	}
	return f.Store.Head(ctx, s, g)
}

// failingBlobs fails as long as it has errors.
type failingBlobs struct {
	blob.Store
	mu   sync.Mutex
	errs []error
}

func (f *failingBlobs) Put(ctx context.Context, session, mime string, r io.Reader) (blob.Info, error) {
	f.mu.Lock()
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		f.mu.Unlock()
		return blob.Info{}, err
	}
	f.mu.Unlock()
	return f.Store.Put(ctx, session, mime, r)
}
