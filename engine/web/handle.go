package web

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/trigger"
)

// quiet is how long a function that returned nothing has to begin an answer on the channel: a worker may still be
// opening its socket.
const quiet = 5 * time.Second

// maxControl bounds a control message of the response channel, in bytes.
const maxControl = 128 << 10

// handle calls the function and sends the first answer that it gives.
func (e *exchange) handle(data json.RawMessage) {
	done := e.start(e.route.binding.FunctionID, trigger.Firing{Payload: data, Metadata: true}, e.route.binding)
	messages := e.listen()
	head := reply{status: http.StatusOK, header: http.Header{}}
	controlled, returned := false, messages == nil
	var patience <-chan time.Time
	for {
		select {
		case out := <-done:
			done = nil
			switch {
			case out.err != nil:
				e.fail(out.err, false)
				return
			case len(out.result) > 0 && string(out.result) != "null":
				e.answer(out.result)
				return
			case messages == nil:
				e.out.WriteHeader(http.StatusNoContent)
				return
			case !controlled:
				timer := e.server.cfg.Clock.NewTimer(quiet)
				defer timer.Stop()
				patience = timer.C()
			}
			returned = true
		case m, ok := <-messages:
			patience = nil
			switch {
			case !ok && controlled:
				e.head(head)
				return
			case !ok && returned:
				e.out.WriteHeader(http.StatusNoContent)
				return
			case !ok:
				messages = nil
			case m.Binary:
				e.stream(head, m, messages)
				return
			default:
				controlled = e.control(m, &head) || controlled
			}
		case <-patience:
			e.out.WriteHeader(http.StatusNoContent)
			return
		case err := <-e.carried:
			e.carried = nil
			if err != nil {
				e.fail(err, false)
				return
			}
		case <-e.limit.C():
			e.fail(errTimeout, false)
			return
		case <-e.ctx.Done():
			e.fail(e.ctx.Err(), false)
			return
		}
	}
}

// listen hands on what comes on the response channel; nil if there is none. It is closed at the end of the channel.
func (e *exchange) listen() <-chan channel.Message {
	if e.pipes == nil {
		return nil
	}
	messages := make(chan channel.Message)
	e.wg.Go(func() {
		defer close(messages)
		for {
			m, err := e.pipes.fromAnswer.Read(e.ctx)
			if err != nil {
				return
			}
			select {
			case messages <- m:
			case <-e.ctx.Done():
				return
			}
		}
	})
	return messages
}

// control takes a text message and reports whether it was one that sets something.
func (e *exchange) control(m channel.Message, head *reply) bool {
	var c struct {
		Type       string          `json:"type"`
		StatusCode *int            `json:"status_code,omitempty"`
		Headers    json.RawMessage `json:"headers,omitempty"`
	}
	problem := ""
	switch {
	case len(m.Data) > maxControl:
		problem = "too large"
	case input.Read(m.Data, &c) != "":
		problem = "no control message"
	case c.Type == "set_status" && c.StatusCode != nil && isStatus(*c.StatusCode):
		head.status = *c.StatusCode
		return true
	case c.Type == "set_headers":
		if err := readHeaders(c.Headers, head.header); err == nil {
			return true
		}
		problem = "headers that HTTP does not allow"
	default:
		problem = "no set_status of 200 to 599 and no set_headers"
	}
	e.server.log.Warn("a message on a response channel was left out", "function_id", e.route.binding.FunctionID, "problem", problem)
	return false
}

// answer sends what a function or a middleware returned.
func (e *exchange) answer(result json.RawMessage) {
	res, err := readReply(result)
	if err != nil {
		e.fail(err, false)
		return
	}
	res.header.Set("Content-Length", strconv.Itoa(len(res.body)))
	if res.status == http.StatusNoContent || res.status == http.StatusNotModified {
		res.header.Del("Content-Length")
		res.body = nil
	}
	e.head(*res)
	if !e.out.send(res.body) {
		panic(http.ErrAbortHandler)
	}
}

func (e *exchange) head(r reply) {
	for name, values := range r.header {
		e.out.Header()[name] = values
	}
	e.out.WriteHeader(r.status)
}

// stream sends an answer from its first binary message on to the end of the channel. What comes as text, and what the
// function returns, counts no longer.
func (e *exchange) stream(head reply, first channel.Message, messages <-chan channel.Message) {
	e.limit.Stop()
	if head.header.Get("Content-Type") == "" {
		head.header.Set("Content-Type", "application/octet-stream")
	}
	e.overlap()
	e.head(head)
	if !e.out.send(first.Data) {
		panic(http.ErrAbortHandler)
	}
	for {
		select {
		case m, ok := <-messages:
			if !ok && e.ctx.Err() == nil && e.drain() {
				return
			}
			if !ok || m.Binary && !e.out.send(m.Data) {
				panic(http.ErrAbortHandler)
			}
		case err := <-e.carried:
			if e.carried = nil; err != nil {
				panic(http.ErrAbortHandler)
			}
		case <-e.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
}
