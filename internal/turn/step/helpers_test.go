package step

import (
	"encoding/json"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

const t0 = int64(1_780_000_000_000)

func fresh(messages ...string) *Record {
	var raw []json.RawMessage
	for _, m := range messages {
		raw = append(raw, encode(agent.User(m, 1)))
	}
	r := Start(nil, Begin{
		SessionID: "s1", MessageID: "m1", Principal: bus.Principal{ID: "alice", Role: bus.RoleClient},
		Request: json.RawMessage(`{"model":"m"}`), Messages: raw, NowMS: t0,
	})
	return r
}

// delivered seals the record and delivers all of it.
func delivered(t *testing.T, r *Record) []Item {
	t.Helper()
	items := r.Seal(10)
	ids := map[string]bool{}
	for _, it := range r.Outbox.Items {
		ids[it.ID] = true
	}
	r.Delivered(ids)
	return items
}

// told is the types of events among items, states included.
func told(items []Item) []string {
	var out []string
	for _, it := range items {
		if it.Event == nil {
			continue
		}
		if it.Event.New != nil {
			out = append(out, ">"+string(it.Event.New.State))
			continue
		}
		out = append(out, it.Event.Type)
	}
	return out
}

// kinds is the kinds and ids of items that are no events.
func others(items []Item) []string {
	var out []string
	for _, it := range items {
		if it.Event == nil {
			out = append(out, string(it.Kind)+" "+it.ID)
		}
	}
	return out
}

func message(stop agent.StopReason, blocks ...agent.Block) agent.Message {
	m := agent.EmptyAssistant("p", "m", t0)
	m.StopReason, m.Content = stop, blocks
	return m
}

func call(args string) agent.Block {
	return agent.Block{Type: agent.BlockFunctionCall, ID: "theirs", FunctionID: ToolName, Arguments: json.RawMessage(args)}
}

// streaming is a record whose model is being asked.
func streaming(t *testing.T) *Record {
	t.Helper()
	r := fresh("hi")
	r.Provisioned(nil, t0)
	delivered(t, r)
	if !r.BeginTurn(t0) {
		t.Fatal("no turn")
	}
	return r
}

// batch is a record with the calls of a message.
func batch(t *testing.T, args ...string) (*Record, []string) {
	t.Helper()
	r := streaming(t)
	var blocks []agent.Block
	for _, a := range args {
		blocks = append(blocks, call(a))
	}
	m := message(agent.StopFunctionCall, blocks...)
	r.Adopt(&m)
	r.AssistantFinished(Reply{Message: m}, t0)
	return r, r.Open()
}

func okOutcome(text string) Outcome {
	return Outcome{Result: agent.FunctionResult{Content: []agent.Block{agent.Text(text)}, Details: json.RawMessage(`{}`)}}
}

func detailsOf(t *testing.T, r *Record, id string) map[string]any {
	t.Helper()
	v, ok := r.Resolve("r:" + id)
	if !ok {
		t.Fatalf("no result of %s", id)
	}
	var m agent.Message
	var d map[string]any
	if err := json.Unmarshal(v.Raw, &m); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Details, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// again is the record after it was stored and read.
func again(t *testing.T, r *Record) *Record {
	t.Helper()
	out, err := Parse(r.Encode(), r.Version)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
