package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// Worker is a stock worker that does what it is told.
type Worker struct {
	*Process
	Language Language

	write   sync.Mutex // guards standard input
	mu      sync.Mutex
	next    int
	answers map[int]chan answer
	events  []Event
	changed chan struct{} // closed when events grows or the process ends
	ended   bool
}

// Event is something that the bus asked of a worker.
type Event struct {
	Event      string          `json:"event"` // called, bind or unbind
	Call       int             `json:"call"`  // of called; names it to release
	FunctionID string          `json:"function_id"`
	Data       json.RawMessage `json:"data"`
	Type       string          `json:"type"` // of bind and unbind: the trigger type
	ID         string          `json:"id"`
	Config     json.RawMessage `json:"config"`
	Metadata   json.RawMessage `json:"metadata"`
}

type answer struct {
	OK    json.RawMessage `json:"ok"`
	Error *Failure        `json:"error"`
}

// Failure is the error that the SDK gave to its caller.
type Failure struct {
	Name    string `json:"name"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (f *Failure) Error() string { return f.Name + " " + f.Message }

// ErrorCode is the code that the SDK shows.
func (f *Failure) ErrorCode() string { return f.Code }

// StartWorker starts the worker script of a language in dir, which must be
// empty. It is not connected.
func StartWorker(l Language, dir string, env ...string) (*Worker, error) {
	script := "worker.mjs"
	if l == Python {
		script = "worker.py"
	}
	argv, err := l.Command(dir, script)
	if err != nil {
		return nil, err
	}
	// HOME is where the Python SDK leaves a note about each process.
	p, err := StartProcess(dir, argv, append([]string{"HOME=" + dir, "PYTHONUNBUFFERED=1"}, env...)...)
	if err != nil {
		return nil, err
	}
	w := &Worker{Process: p, Language: l, answers: map[int]chan answer{}, changed: make(chan struct{})}
	go w.read()
	return w, nil
}

func (w *Worker) read() {
	for {
		text, err := w.Line()
		var line struct {
			N int `json:"n"`
			answer
			Event
		}
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		w.mu.Lock()
		switch {
		case err != nil:
			w.ended = true
			for n, ch := range w.answers {
				close(ch)
				delete(w.answers, n)
			}
		case line.Event.Event != "":
			w.events = append(w.events, line.Event)
		default:
			w.answers[line.N] <- line.answer
			delete(w.answers, line.N)
			w.mu.Unlock()
			continue
		}
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Do carries out an operation and returns its result. The error is a Failure
// if the SDK gave one.
func (w *Worker) Do(ctx context.Context, op string, args map[string]any) (json.RawMessage, error) {
	return w.Begin(op, args)(ctx)
}

// Begin starts an operation; what it returns waits for the result.
func (w *Worker) Begin(op string, args map[string]any) func(context.Context) (json.RawMessage, error) {
	failed := func(err error) func(context.Context) (json.RawMessage, error) {
		return func(context.Context) (json.RawMessage, error) { return nil, err }
	}
	line := map[string]any{"op": op}
	for k, v := range args {
		line[k] = v
	}
	ch := make(chan answer, 1)
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return failed(fmt.Errorf("sdk: %s: the worker has ended\n%s", op, w.Log))
	}
	w.next++
	n := w.next
	w.answers[n] = ch
	w.mu.Unlock()
	line["n"] = n
	text, err := json.Marshal(line)
	if err != nil {
		return failed(err)
	}
	w.write.Lock()
	_, err = w.stdin.Write(append(text, '\n'))
	w.write.Unlock()
	if err != nil {
		return failed(err)
	}
	return func(ctx context.Context) (json.RawMessage, error) {
		select {
		case a, ok := <-ch:
			switch {
			case !ok:
				return nil, fmt.Errorf("sdk: %s: the worker ended\n%s", op, w.Log)
			case a.Error != nil:
				return nil, a.Error
			}
			return a.OK, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("sdk: %s: %w\n%s", op, ctx.Err(), w.Log)
		}
	}
}

// Await takes the first event that matches, waiting for it if need be.
func (w *Worker) Await(ctx context.Context, match func(Event) bool) (Event, error) {
	for {
		w.mu.Lock()
		for i, e := range w.events {
			if match(e) {
				w.events = append(w.events[:i:i], w.events[i+1:]...)
				w.mu.Unlock()
				return e, nil
			}
		}
		changed, ended := w.changed, w.ended
		w.mu.Unlock()
		if ended {
			return Event{}, fmt.Errorf("sdk: the worker ended\n%s", w.Log)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("sdk: no such event: %w\n%s", ctx.Err(), w.Log)
		}
	}
}
