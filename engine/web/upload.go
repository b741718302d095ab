package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/iii-aws/harness/engine/channel"
)

// drainTimeout is how long the rest of a body is waited for that nobody wants, when its answer begins.
const drainTimeout = time.Second

// upload is the way of a body to its channel.
type upload struct {
	// carried tells how the body came through; nil before it is carried, and when it has been asked.
	carried <-chan error
	cease   context.CancelFunc
	reads   bool // it reads from the client
	// whole: the client's body was read to its end.
	whole bool
}

// carry begins to write a body to its channel: the one that was read, or what comes from the client.
func (e *exchange) carry(body []byte, isRead bool) {
	ctx, cease := context.WithCancel(e.ctx)
	carried := make(chan error, 1)
	e.carried, e.cease, e.reads = carried, cease, !isRead
	next := e.nextPiece
	if isRead {
		next = func() ([]byte, error) {
			n := min(len(body), piece)
			p := body[:n]
			if body = body[n:]; len(body) == 0 {
				return p, io.EOF
			}
			return p, nil
		}
	}
	e.wg.Go(func() { carried <- transfer(ctx, e.pipes.toBody, next, e.server.maxBody) })
}

func (e *exchange) nextPiece() ([]byte, error) {
	p := make([]byte, piece)
	n, err := e.readPiece(p)
	return p[:n], err
}

// transfer writes pieces to a channel until there are no more, nobody wants them, or ctx ends, and closes it. The error
// is that of next, or that the body is too large.
func transfer(ctx context.Context, w channel.Writer, next func() ([]byte, error), limit int64) (err error) {
	defer func() { err = errors.Join(err, w.Close()) }()
	for total := int64(0); ; {
		p, more := next()
		if total += int64(len(p)); total > limit {
			return errTooLarge
		}
		if len(p) > 0 {
			err := w.Write(ctx, channel.Message{Data: p, Binary: true})
			switch {
			case errors.Is(err, channel.ErrReaderGone), ctx.Err() != nil:
				return nil // nobody wants the rest
			case err != nil:
				return err
			}
		}
		switch {
		case errors.Is(more, io.EOF):
			return nil
		case more != nil && ctx.Err() == nil:
			return more
		case more != nil:
			return nil
		}
	}
}

// stopUpload ends the carrying of a body, and waits for that.
func (e *exchange) stopUpload() {
	if e.carried == nil {
		return
	}
	defer e.cease()
	select {
	case <-e.carried:
		e.carried = nil
		return
	default:
	}
	e.cease()
	if e.reads {
		// It may wait for the client. The connection is of no more use after that. Without deadlines it goes on waiting.
		e.out.Header().Set("Connection", "close")
		_ = e.out.control.SetReadDeadline(time.Unix(1, 0))
	}
	<-e.carried
	e.carried = nil
}

// leaveBody is for when an answer begins: the server itself then looks for the end of the body, for a while.
func (e *exchange) leaveBody() {
	e.stopUpload()
	if !e.whole && e.in.Body != http.NoBody {
		_ = e.out.control.SetReadDeadline(time.Now().Add(drainTimeout)) // without deadlines it waits for the client
	}
}

// overlap lets the answer begin while the body still comes.
func (e *exchange) overlap() {
	if e.carried == nil || !e.reads {
		return
	}
	if err := e.out.control.EnableFullDuplex(); err == nil {
		e.out.before = nil
	}
}

// drain reads what is left of a body, after an answer that overlapped with it. It reports false if there is no end of
// it: then the connection can serve no further request.
func (e *exchange) drain() bool {
	if e.out.before != nil || !e.reads {
		return true
	}
	e.leaveBody()
	if e.whole {
		return true
	}
	n, err := io.Copy(io.Discard, io.LimitReader(e.in.Body, e.server.maxBody))
	return err == nil && n < e.server.maxBody
}
