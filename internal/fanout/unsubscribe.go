package fanout

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// UnsubscribeRequest names a subscription.
type UnsubscribeRequest struct {
	BrowserID string `json:"browser_id"`
	// SessionID absent or null is the subscription to all sessions.
	SessionID *string `json:"session_id,omitempty"`
}

// Validate names the first wrong field.
func (r UnsubscribeRequest) Validate() error { return validate(r.BrowserID, r.SessionID) }

// unsubscribe serves ui::unsubscribe. A subscription that does not exist is
// none that has to end. Errors: *NoConnectionError.
func (f *Fanout) unsubscribe(ctx context.Context, call *bus.Call, r UnsubscribeRequest) (SubscribeResponse, error) {
	sub, err := subscription(call, r.BrowserID, r.SessionID)
	if err != nil {
		return SubscribeResponse{}, err
	}
	n, err := f.Hub.Unsubscribe(ctx, sub)
	if err != nil {
		return SubscribeResponse{}, err
	}
	return SubscribeResponse{OK: true, TotalBrowsers: n}, nil
}
