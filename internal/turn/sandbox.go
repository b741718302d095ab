package turn

import (
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// sandboxFor is how long a sandbox may take to start.
const sandboxFor = 300 * time.Second

// sandbox makes the sandbox that the run asked for. Its id is stored at once,
// so that a step that takes over makes no second one; the end of the run stops
// it.
func (d *driver) sandbox(req *runRequest) error {
	if req.Sandbox == nil {
		return nil
	}
	var row struct {
		Run string `json:"run"`
		ID  string `json:"sandbox_id"`
	}
	ok, err := d.t.readRow(d.ctx, agent.ScopeSandboxID, d.rec.SessionID, &row)
	if err != nil {
		return transient(CodeStorage, err)
	}
	if ok && row.Run == d.rec.Run {
		d.rec.SandboxID = row.ID
		return nil
	}
	payload := map[string]any{"image": "python", "idle_timeout_secs": int64(300)}
	if req.Sandbox.Image != "" {
		payload["image"] = req.Sandbox.Image
	}
	if req.Sandbox.IdleTimeoutSecs > 0 {
		payload["idle_timeout_secs"] = req.Sandbox.IdleTimeoutSecs
	}
	raw, err := d.invoke(d.work, "sandbox::create", encode(payload), sandboxFor)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &row); err != nil {
		return err
	}
	row.Run = d.rec.Run
	if _, err := state.Do(d.ctx, d.t.State, state.Set(agent.ScopeSandboxID, d.rec.SessionID, encode(row))); err != nil {
		return transient(CodeStorage, err)
	}
	d.t.Stats.Waited(d.rec.SessionID, "sandbox_id")
	d.rec.SandboxID = row.ID
	return nil
}
