package turn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// TestApproverSeesAPreview: beside the arguments, and never one that the model
// made up or that another worker tells.
func TestApproverSeesAPreview(t *testing.T) {
	t.Parallel()
	diff := func(text string) handler { return answers(map[string]string{"diff": text}) }
	for _, tt := range []struct {
		name    string
		preview handler
		by      string // the worker that serves the preview
		none    bool   // the function names no preview
		args    map[string]any
		want    string
	}{
		{"shown", diff("-a\n+b\n"), "w1", false, map[string]any{"path": "f"}, "-a\n+b\n"},
		{"made up", diff("-a\n+b\n"), "w1", false, map[string]any{"path": "f", "diff": "harmless"}, "-a\n+b\n"},
		{"secrets are covered", diff("+password=hunter2-hunter2\n"), "w1", false, map[string]any{"path": "f"}, "+password=[REDACTED]\n"},
		{"cut", diff(strings.Repeat("é", maxPreview)), "w1", false, map[string]any{"path": "f"}, strings.Repeat("é", maxPreview/2) + "\n(cut)"},
		{"empty", diff(" "), "w1", false, map[string]any{"path": "f"}, "(an empty preview)"},
		{"failed", failing("invocation_failed", "boom"), "w1", false, map[string]any{"path": "f", "diff": "harmless"}, "(no preview: invocation_failed)"},
		{"nonsense", answers([]int{1}), "w1", false, map[string]any{"path": "f"}, "(no preview: invocation_failed)"},
		{"of another worker", diff("-a"), "w2", false, map[string]any{"path": "f"}, "(no preview: its worker does not serve it)"},
		{"none named", diff("-a"), "w1", true, map[string]any{"path": "f"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := w.simple("ask::x")
			w.bus.onMeta("w::preview", bus.Meta{Internal: true}, bus.KindBuiltin, tt.preview)
			w.bus.mu.Lock()
			for id, worker := range map[string]string{"ask::x": "w1", "w::preview": tt.by} {
				f := w.bus.funcs[id]
				f.worker = worker
				if id == "ask::x" && !tt.none {
					f.meta.Preview = "w::preview"
				}
				w.bus.funcs[id] = f
			}
			w.bus.mu.Unlock()
			w.model.plays(wants(want("ask::x", tt.args)), says("ok"))
			w.start("s1", "go")
			id := w.parked("s1").AwaitingApproval[0].FunctionCallID
			var row agent.ApprovalRequest
			if ok, err := w.proc.turn.readRow(t.Context(), agent.ScopeApprovalReqs, "s1/"+id, &row); err != nil || !ok {
				t.Fatalf("no row: %v", err)
			}
			var shown struct{ Path, Diff string }
			if err := json.Unmarshal(row.ArgsExcerpt, &shown); err != nil || shown.Path != "f" || shown.Diff != tt.want {
				t.Errorf("the approver sees %.300s, %v\nwant the diff %.100q", row.ArgsExcerpt, err, tt.want)
			}
			seen := w.bus.seen("w::preview")
			if called := len(seen) == 1; called != (tt.by == "w1" && !tt.none) {
				t.Errorf("asked %d times", len(seen))
			}
			// What was shown is not what runs: the arguments are.
			w.decide("s1", id, agent.DecisionAllow, "")
			w.ended("s1")
			if x.count() != 1 || x.data(0) != string(encode(tt.args)) {
				t.Errorf("ran with %v", x.datas)
			}
		})
	}
}

func TestExcerptOfNoObject(t *testing.T) {
	t.Parallel()
	if got := excerpt(json.RawMessage(`[1]`), "-a"); string(got) != `{"arguments":[1],"diff":"-a"}` {
		t.Error(string(got))
	}
}
