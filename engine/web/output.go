package web

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// piece is how much of an answer is written at once, in bytes.
const piece = 64 << 10

// output is where an answer goes. It knows whether one has begun.
type output struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool
	// before is called before an answer begins; may be nil.
	before func()
}

func (o *output) begin() {
	if !o.begun && o.before != nil {
		o.before()
	}
	o.begun = true
}

// WriteHeader begins the answer.
func (o *output) WriteHeader(status int) {
	o.begin()
	o.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, unless it has begun, and writes to it.
func (o *output) Write(p []byte) (int, error) {
	o.begin()
	return o.ResponseWriter.Write(p)
}

// send writes to the client, which must take each piece in time. It reports false when it does not, or has gone.
func (o *output) send(p []byte) bool {
	for first := true; first || len(p) > 0; first = false {
		n := min(len(p), piece)
		// The deadline is one of the system's sockets, so it goes by the system's clock.
		if err := o.control.SetWriteDeadline(time.Now().Add(pieceTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := o.Write(p[:n]); errors.Is(err, http.ErrBodyNotAllowed) {
			return true // HEAD, 204 and 304 have none
		} else if err != nil {
			return false
		}
		p = p[n:]
	}
	if err := o.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	err := o.control.SetWriteDeadline(time.Time{})
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// failure is the body of an error.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	ErrorID string `json:"error_id,omitempty"`
}

type failureBody struct {
	Error   failure `json:"error"`
	Skipped bool    `json:"skipped,omitempty"`
}

func writeError(w http.ResponseWriter, status int, f failure) {
	writeFailure(w, status, failureBody{Error: f})
}

func writeFailure(w http.ResponseWriter, status int, b failureBody) {
	text, err := bus.Encode(b)
	if err != nil {
		panic(err) // strings and a bool
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone needs no answer
}

func methodNotAllowed(w http.ResponseWriter, allowed []string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusMethodNotAllowed)
}
