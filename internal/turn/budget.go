package turn

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// reserve holds the cost of a model call. It answers with the budget that
// refused, empty if none did; a budget that cannot be asked refuses.
func (d *driver) reserve(req *runRequest, messages []agent.Message) (refusedBy string) {
	id := step.ReservationID(d.rec.Run, d.rec.TurnCount, d.rec.Retries())
	payload := map[string]any{
		"reservation_id": id, "session_id": d.rec.SessionID, "ttl_ms": d.t.cfg.ReservationTTL.Milliseconds(),
		"estimated_cost_usd": d.cost(req, messages),
	}
	if w := d.rec.Principal.WorkspaceID; w != "" {
		payload["workspace_id"] = w
	}
	if req.AgentID != "" {
		payload["agent_id"] = req.AgentID
	}
	raw, err := d.invoke(d.work, "budget::reserve", encode(payload), 0)
	if err != nil && bus.Code(err) == protocol.CodeFunctionNotFound {
		return ""
	}
	var res struct {
		Allowed   bool   `json:"allowed"`
		RefusedBy string `json:"refused_by"`
		Reason    string `json:"reason"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &res)
	}
	switch {
	case d.work.Err() != nil:
		return "" // an abort has ended the question; the caller looks for that
	case err != nil:
		d.t.Logger.Error("budget cannot be read, the call is refused", "session", d.rec.SessionID, "error", clean(err))
		return "unavailable"
	case res.Allowed:
		d.rec.Reservation = id
		return ""
	case res.RefusedBy == "":
		return "unknown"
	}
	return res.RefusedBy
}

// cost is what a model call may cost at most, nil if the price is not known.
func (d *driver) cost(req *runRequest, messages []agent.Message) *float64 {
	e, ok := d.entry()
	if !ok || e.Pricing == nil {
		return nil
	}
	in := float64(estimate(messages, req.SystemPrompt, req.Functions))
	usd := (in*e.Pricing.Input + float64(e.MaxOutputTokens)*e.Pricing.Output) / 1e6
	return &usd
}

// settle closes the reservation of a model call. A provider that finished has
// reported what it used; for one that was cut off the estimate counts, and a
// call that sent nothing costs nothing.
func (d *driver) settle(req *runRequest, messages []agent.Message, m agent.Message, shown bool) {
	finished := m.StopReason != agent.StopError && m.StopReason != agent.StopAborted
	switch {
	case d.rec.Reservation == "":
	case finished:
		d.rec.Reservation = ""
	case shown:
		usd := 0.0
		if c := d.cost(req, messages); c != nil {
			usd = *c
		}
		d.rec.SettleReservation(usd)
	default:
		d.rec.ReleaseReservation()
	}
}
