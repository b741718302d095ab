package turn

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/redact"
)

// maxPreview is how many bytes of a preview a person is shown.
const maxPreview = 20 << 10

// preview asks the worker of a function what a call would change, if the
// function says who can tell. The answer is for a person; it decides nothing.
// Empty means that the function has no preview.
func (c checker) preview(ctx context.Context, functionID string, args json.RawMessage) string {
	entry, ok := c.t.Directory.Lookup(bus.DefaultNamespace, functionID)
	if !ok || entry.Meta.Preview == "" {
		return ""
	}
	// Only of the same worker: a registration must not have the turn call
	// whatever it names.
	by, ok := c.t.Directory.Lookup(bus.DefaultNamespace, entry.Meta.Preview)
	if !ok || by.WorkerID != entry.WorkerID || by.Connection != entry.Connection {
		return "(no preview: its worker does not serve it)"
	}
	raw, err := c.t.within(ctx, bus.Invocation{
		FunctionID: entry.Meta.Preview, Principal: &c.principal, Timeout: c.t.cfg.PolicyTimeout,
		Data: encode(map[string]any{"function_id": functionID, "arguments": args}),
	})
	var r struct {
		Diff string `json:"diff"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		c.t.Logger.Warn("no preview of a call", "session", c.session, "function", redact.Name(functionID), "error", clean(err))
		return "(no preview: " + bus.Code(err) + ")"
	}
	text := redact.Text(r.Diff)
	if len(text) > maxPreview {
		text = strings.ToValidUTF8(text[:maxPreview], "") + "\n(cut)"
	}
	if strings.TrimSpace(text) == "" {
		return "(an empty preview)"
	}
	return text
}

// excerpt is what a person is shown of a call's arguments. A preview takes the
// place of an argument of its name, which a model could have made up.
func excerpt(args json.RawMessage, diff string) json.RawMessage {
	shown := redact.Excerpt(args)
	if diff == "" {
		return shown
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(shown, &members) != nil || members == nil {
		members = map[string]json.RawMessage{"arguments": shown}
	}
	members["diff"] = encode(diff)
	return encode(members)
}
