package turn

import (
	"context"
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/prompt"
)

// lookupFor is how long provisioning waits for each thing it can do without.
const lookupFor = 10 * time.Second

// provision prepares a run: system prompt, tool, model entry, sandbox.
func (d *driver) provision() error {
	req, err := d.prepare()
	if err != nil {
		return err
	}
	d.t.bootstrap(d.ctx, d.rec.Principal)
	meta, err := d.equip(req)
	if err != nil {
		return err
	}
	if err := d.sandbox(req); err != nil {
		return err
	}
	d.request = req
	stored := d.t.State.Submit(d.ctx, []state.Write{state.Set(agent.ScopeRunRequest, d.rec.SessionID, encode(req))})
	d.rec.Provisioned(meta, d.t.nowMS())
	return d.save("streaming", stored)
}

// prepare reads the request that run::start left in the record.
func (d *driver) prepare() (*runRequest, error) {
	req := &runRequest{Functions: []json.RawMessage{}}
	if err := json.Unmarshal(d.rec.Request.Raw, req); err != nil {
		return nil, &InvariantError{Text: "the request of the run is missing: " + err.Error()}
	}
	req.Run = d.rec.Run
	return req, nil
}

// equip finds what the run needs from elsewhere, all at once. What is missing
// is done without.
func (d *driver) equip(req *runRequest) (meta json.RawMessage, err error) {
	in := prompt.Input{Override: req.SystemPrompt, Cwd: req.Cwd}
	if req.Mode != nil {
		in.Mode = prompt.Mode(*req.Mode)
	}
	var all group
	if in.Override == "" {
		in.Skills = make([]prompt.Skill, len(d.t.cfg.SystemDefaultSkills))
		all.run(func() { in.Index = d.body("directory::skills::index", map[string]string{}) })
		for i, uri := range d.t.cfg.SystemDefaultSkills {
			in.Skills[i].URI = uri
			all.run(func() {
				body := d.body("directory::skills::get", map[string]string{"id": prompt.ID(uri)})
				in.Skills[i].Body, in.Skills[i].Loaded = body, body != ""
			})
		}
	}
	all.run(func() { meta = d.modelMeta(req) })
	err = all.wait()
	req.SystemPrompt = prompt.Build(in)
	req.Functions = []json.RawMessage{encode(prompt.Tool())}
	return meta, err
}

// body is the body of a skill or of the index, empty if it cannot be had.
func (d *driver) body(functionID string, payload any) string {
	raw, err := d.invoke(d.work, functionID, encode(payload), lookupFor)
	var res struct {
		Body string `json:"body"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &res)
	}
	if err != nil {
		d.t.Logger.Debug("prompt without a skill", "session", d.rec.SessionID, "function", functionID, "error", clean(err))
		return ""
	}
	return res.Body
}

// modelMeta is the catalogue's entry of the run's model, nil if there is none.
func (d *driver) modelMeta(req *runRequest) json.RawMessage {
	route, failed := d.decide(req.Provider, req.Model)
	if failed != nil {
		return nil // the model call tells it
	}
	raw, err := d.invoke(d.work, "models::get", encode(map[string]string{"provider": route.name, "model_id": req.Model}), lookupFor)
	var entry map[string]json.RawMessage
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &entry)
	}
	if err != nil {
		d.t.Logger.Debug("model without an entry", "session", d.rec.SessionID, "model", req.Model, "error", clean(err))
		return nil
	}
	if entry == nil {
		return nil
	}
	return raw
}

// bootstrap asks for the skills that prompts start with, at most once an hour
// each, and waits for nothing.
func (t *Turn) bootstrap(ctx context.Context, p bus.Principal) {
	now := t.Clock.Now()
	for _, uri := range t.cfg.SystemDefaultSkills {
		ns := prompt.Namespace(uri)
		t.mu.Lock()
		last, ok := t.downloads[ns]
		fresh := ok && now.Sub(last) < time.Hour
		if !fresh {
			t.downloads[ns] = now
		}
		t.mu.Unlock()
		if fresh {
			continue
		}
		_, err := t.Bus.Invoke(ctx, bus.Invocation{
			FunctionID: "directory::skills::download", Action: bus.Void, Principal: &p,
			Data: encode(map[string]string{"worker": ns}),
		})
		if err != nil {
			t.Logger.Debug("skills not refreshed", "namespace", ns, "error", clean(err))
		}
	}
}

// loadRequest is the stored request of the run. If it is not there, the write
// beside the record was lost: provisioning is made up for.
func (d *driver) loadRequest() (*runRequest, error) {
	if d.request != nil {
		return d.request, nil
	}
	req := &runRequest{}
	ok, err := d.t.readRow(d.ctx, agent.ScopeRunRequest, d.rec.SessionID, req)
	if err != nil {
		return nil, transient(CodeStorage, err)
	}
	if ok && req.Run == d.rec.Run {
		d.request = req
		return req, nil
	}
	if req, err = d.prepare(); err != nil {
		return nil, err
	}
	if d.rec.ModelMeta, err = d.equip(req); err != nil {
		return nil, err
	}
	if _, err := state.Do(d.ctx, d.t.State, state.Set(agent.ScopeRunRequest, d.rec.SessionID, encode(req))); err != nil {
		return nil, transient(CodeStorage, err)
	}
	d.t.Stats.Waited(d.rec.SessionID, "run_request")
	d.request = req
	return req, nil
}
