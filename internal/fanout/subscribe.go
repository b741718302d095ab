package fanout

import (
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/viewer"
)

// maxBrowser is the longest browser id in bytes.
const maxBrowser = 128

// SubscribeRequest asks for the events of a session, or of all that the caller
// may see.
type SubscribeRequest struct {
	// BrowserID names the functions that are called:
	// ui::session::event::<browser_id> and ui::sessions::changed::<browser_id>.
	BrowserID string `json:"browser_id"`
	// SessionID absent or null is all sessions.
	SessionID *string `json:"session_id,omitempty"`
	// Position is where to go on; absent or null is live events alone.
	Position *PositionRequest `json:"position,omitempty"`
	// Batch: the caller takes several events in one push.
	Batch bool `json:"batch,omitempty"`
}

// PositionRequest is how far the caller has read.
type PositionRequest struct {
	// Epoch is the log's; absent is the one of now.
	Epoch string `json:"epoch,omitempty"`
	// Seq is the last event seen, -1 for none.
	Seq *int64 `json:"seq"`
}

// Validate names the first wrong field.
func (r SubscribeRequest) Validate() error {
	if err := validate(r.BrowserID, r.SessionID); err != nil {
		return err
	}
	switch p := r.Position; {
	case p == nil:
	case r.SessionID == nil:
		return bus.Invalid("position", "absent without a session_id: positions are of one session")
	case p.Seq == nil:
		return bus.Missing("position.seq")
	case *p.Seq < -1:
		return bus.Invalid("position.seq", "the last sequence seen, or -1 to replay all")
	}
	return nil
}

func validate(browser string, session *string) error {
	switch {
	case browser == "":
		return bus.Missing("browser_id")
	case len(browser) > maxBrowser || !utf8.ValidString(browser) || !printable(browser):
		return bus.Invalid("browser_id", fmt.Sprintf("at most %d bytes of printable characters without spaces", maxBrowser))
	case session != nil && (*session == "" || !utf8.ValidString(*session)):
		return bus.Invalid("session_id", "a session id, or null for all sessions")
	}
	return nil
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// SubscribeResponse is the answer of ui::subscribe and ui::unsubscribe.
type SubscribeResponse struct {
	OK            bool `json:"ok"`
	TotalBrowsers int  `json:"total_browsers"`
	// Position is where the log was: what comes behind it is live.
	Position *viewer.Position `json:"position,omitempty"`
	// Reset is epoch_changed, expired or ahead if the position asked for cannot
	// be continued from.
	Reset viewer.Reset `json:"reset,omitempty"`
}

// subscribe serves ui::subscribe. Errors: *NotFoundError, *NoConnectionError.
func (f *Fanout) subscribe(ctx context.Context, call *bus.Call, r SubscribeRequest) (SubscribeResponse, error) {
	sub, err := subscription(call, r.BrowserID, r.SessionID)
	if err != nil {
		return SubscribeResponse{}, err
	}
	if sub.Session != "" {
		owner, ok, err := viewer.Owner(ctx, f.State, sub.Session)
		if err != nil {
			return SubscribeResponse{}, err
		}
		if !ok || !access.Sees(call.Principal, owner, sub.Session) {
			return SubscribeResponse{}, &NotFoundError{Session: sub.Session}
		}
	}
	sub.Batch = r.Batch
	if r.Position != nil {
		sub.Position = &viewer.Position{Epoch: r.Position.Epoch, Seq: *r.Position.Seq}
	}
	got, err := f.Hub.Subscribe(ctx, sub)
	if err != nil {
		return SubscribeResponse{}, err
	}
	return SubscribeResponse{OK: true, TotalBrowsers: got.Browsers, Position: got.Position, Reset: got.Reset}, nil
}

// subscription is what a call names.
func subscription(call *bus.Call, browser string, session *string) (viewer.Subscription, error) {
	if call.Connection == "" {
		return viewer.Subscription{}, &NoConnectionError{FunctionID: call.FunctionID}
	}
	sub := viewer.Subscription{Browser: browser, Connection: call.Connection, Principal: call.Principal}
	if session != nil {
		sub.Session = *session
	}
	return sub, nil
}

// NotFoundError is a session that does not exist, or is somebody else's.
type NotFoundError struct{ Session string }

// Error is the text of the error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("session %s: not_found", e.Session) }

// ErrorCode is not_found.
func (e *NotFoundError) ErrorCode() string { return "not_found" }

// Retryable reports that the same call fails again.
func (e *NotFoundError) Retryable() bool { return false }

// NoConnectionError is a caller that nothing can be pushed to.
type NoConnectionError struct{ FunctionID string }

// Error is the text of the error.
func (e *NoConnectionError) Error() string {
	return e.FunctionID + " must be called over a WebSocket connection, which gets the events"
}

// ErrorCode is no_connection.
func (e *NoConnectionError) ErrorCode() string { return "no_connection" }

// Retryable reports that the same call fails again.
func (e *NoConnectionError) Retryable() bool { return false }
