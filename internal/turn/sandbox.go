package turn

import (
	"context"
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// sandboxFor is how long a sandbox may take to start.
const sandboxFor = 300 * time.Second

// sandbox makes the sandbox that the run asked for, once.
func (d *driver) sandbox(req *runRequest) error {
	if req.Sandbox == nil {
		return nil
	}
	var known struct {
		Run string `json:"run"`
	}
	ok, err := d.t.readRow(d.ctx, agent.ScopeSandboxID, d.rec.SessionID, &known)
	if err != nil {
		return transient(CodeStorage, err)
	}
	if ok && known.Run == d.rec.Run {
		return nil
	}
	payload := map[string]any{"image": "python", "idle_timeout_secs": int64(300)}
	if req.Sandbox.Image != "" {
		payload["image"] = req.Sandbox.Image
	}
	if req.Sandbox.IdleTimeoutSecs > 0 {
		payload["idle_timeout_secs"] = req.Sandbox.IdleTimeoutSecs
	}
	raw, err := d.invoke(d.ctx, "sandbox::create", encode(payload), sandboxFor)
	if err != nil {
		return err
	}
	var made struct {
		ID string `json:"sandbox_id"`
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return err
	}
	row := map[string]string{"run": d.rec.Run, "sandbox_id": made.ID}
	if _, err := state.Do(d.ctx, d.t.State, state.Set(agent.ScopeSandboxID, d.rec.SessionID, encode(row))); err != nil {
		return transient(CodeStorage, err)
	}
	d.t.Stats.Waited(d.rec.SessionID, "sandbox_id")
	return nil
}

// stopSandbox stops the sandbox of a run that has ended, if it had one. A
// sandbox that stays idles out.
func (d *driver) stopSandbox(ctx context.Context) {
	var row struct {
		Run string `json:"run"`
		ID  string `json:"sandbox_id"`
	}
	ok, err := d.t.readRow(ctx, agent.ScopeSandboxID, d.rec.SessionID, &row)
	if err != nil || !ok || row.Run != d.rec.Run {
		return
	}
	if _, err := d.invoke(ctx, "sandbox::stop", encode(map[string]string{"sandbox_id": row.ID}), 0); err != nil {
		d.t.Logger.Warn("sandbox not stopped", "session", d.rec.SessionID, "sandbox", row.ID, "error", clean(err))
		return
	}
	d.t.State.Submit(ctx, []state.Write{state.Delete(agent.ScopeSandboxID, d.rec.SessionID)})
}
