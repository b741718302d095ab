package approval

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

const (
	defaultPage = 50
	maxPage     = 200
)

type listRequest struct {
	SessionID string `json:"session_id,omitempty"`
	Limit     *int   `json:"limit,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// Validate names the first wrong field.
func (r listRequest) Validate() error {
	if r.Limit != nil && (*r.Limit < 1 || *r.Limit > maxPage) {
		return bus.Invalid("limit", "1 to 200")
	}
	if allowed := validID(r.SessionID); r.SessionID != "" && allowed != "" {
		return bus.Invalid("session_id", allowed)
	}
	_, err := readCursor(r.Cursor)
	return err
}

type listResponse struct {
	Approvals []agent.ApprovalRequest `json:"approvals"`
	Cursor    string                  `json:"cursor,omitempty"`
}

// place is where a page ended: the rows behind it are older, or of the same
// time and a greater key.
type place struct {
	At  int64  `json:"at"`
	Key string `json:"key"`
}

func (p place) cursor() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a number and a text always encode
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(s string) (*place, error) {
	if s == "" {
		return nil, nil
	}
	var p place
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return nil, &bus.InvalidError{Field: "cursor", Allowed: "a cursor of an earlier answer", Err: err}
	}
	return &p, nil
}

// list is the calls that wait, newest first, over all sessions that the caller
// may see. Pages neither repeat nor skip a row that waits all the while.
func (g *Gate) list(ctx context.Context, call *bus.Call, r listRequest) (listResponse, error) {
	out := listResponse{Approvals: []agent.ApprovalRequest{}}
	after, err := readCursor(r.Cursor)
	if err != nil {
		return out, err
	}
	o := state.ListOptions{}
	if r.SessionID != "" {
		o.Prefix = r.SessionID + "/"
	}
	items, err := g.State.List(ctx, agent.ScopeApprovalReqs, o)
	if err != nil {
		return out, fmt.Errorf("approval: list: %w", err)
	}
	rows, err := g.visible(ctx, call.Principal, items)
	if err != nil {
		return out, err
	}
	limit := defaultPage
	if r.Limit != nil {
		limit = *r.Limit
	}
	for _, row := range rows {
		here := place{row.RequestedAt, row.SessionID + "/" + row.FunctionCallID}
		if after != nil && (here.At > after.At || (here.At == after.At && here.Key <= after.Key)) {
			continue
		}
		if len(out.Approvals) == limit {
			last := out.Approvals[limit-1]
			out.Cursor = place{last.RequestedAt, last.SessionID + "/" + last.FunctionCallID}.cursor()
			break
		}
		out.Approvals = append(out.Approvals, row)
	}
	return out, nil
}

// visible is the rows that a principal may see, newest first.
func (g *Gate) visible(ctx context.Context, p bus.Principal, items []state.Item) ([]agent.ApprovalRequest, error) {
	var rows []agent.ApprovalRequest
	seen := map[string]bool{}
	for _, it := range items {
		var row agent.ApprovalRequest
		if err := json.Unmarshal(it.Value, &row); err != nil {
			// One bad row must not hide the calls that wait.
			g.Logger.Error("approval request cannot be read", "alarm", "approval_row", "key", it.Key.Key, "error", err)
			continue
		}
		ok, asked := seen[row.SessionID]
		if !asked {
			var err error
			if ok, err = g.sees(ctx, p, row.SessionID); err != nil {
				return nil, fmt.Errorf("approval: session %s: %w", row.SessionID, err)
			}
			seen[row.SessionID] = ok
		}
		if ok {
			rows = append(rows, row)
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if a.RequestedAt != b.RequestedAt {
			return a.RequestedAt > b.RequestedAt
		}
		return a.SessionID+"/"+a.FunctionCallID < b.SessionID+"/"+b.FunctionCallID
	})
	return rows, nil
}
