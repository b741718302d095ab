package web

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// bodyError is why a body could not be read, with the status that says so; 0 if the client has gone.
type bodyError struct {
	status int
	failure
}

func (e *bodyError) Error() string { return "web: body: " + e.Code }

var (
	errTooLarge = &bodyError{http.StatusRequestEntityTooLarge, failure{Code: "PAYLOAD_TOO_LARGE", Message: "The body of the request is too large"}}
	errTooSlow  = &bodyError{http.StatusRequestTimeout, failure{Code: "REQUEST_TIMEOUT", Message: "The body of the request did not come in time"}}
	errBusy     = &bodyError{http.StatusServiceUnavailable, failure{Code: "UNAVAILABLE", Message: "Too many requests run at the moment"}}
	errCut      = &bodyError{0, failure{Code: "REQUEST_CUT", Message: "The body of the request broke off"}}
)

// readPiece reads some of the body, which the client must send in time.
func (e *exchange) readPiece(p []byte) (int, error) {
	// The deadline is one of the system's sockets, so it goes by the system's clock.
	if err := e.out.control.SetReadDeadline(time.Now().Add(pieceTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, errCut
	}
	n, err := e.in.Body.Read(p)
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF):
		// From now on the server watches the connection for its end, for as long as the answer takes.
		if err := e.out.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, errCut
		}
		e.whole = true
		return n, io.EOF
	case err == nil:
		return n, nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return n, errTooSlow
	}
	return n, errCut
}

// readJSON reads a whole body, in the time that the exchange has. What it holds counts for the server until the exchange ends.
func (e *exchange) readJSON() ([]byte, error) {
	if e.in.ContentLength > e.server.maxJSON {
		return nil, errTooLarge
	}
	body := make([]byte, 0, max(e.in.ContentLength, 512))
	p := make([]byte, piece)
	for {
		n, err := e.readPiece(p)
		e.held += int64(n)
		if e.server.buffered.Add(int64(n)) > maxBuffered {
			return nil, errBusy
		}
		if body = append(body, p[:n]...); int64(len(body)) > e.server.maxJSON {
			return nil, errTooLarge
		}
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-e.limit.C():
			return nil, errTooSlow
		default:
		}
	}
}
