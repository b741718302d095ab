package sdk

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens anew")

// laterFunctions are not built, or come later.
var laterFunctions = []string{
	"configuration::", "engine::logs::", "engine::traces::", "engine::metrics::", "engine::rollups::",
	"engine::alerts::", "engine::sampling::",
	"engine::health::check", // it reports on logs, traces and metrics
}

// laterTypes are the trigger types that are not built, or come later.
var laterTypes = []string{"stream:join", "stream:leave", "configuration", "log", "trace"}

// later reports a function that is not built.
func later(functionID string) bool {
	return slices.ContainsFunc(laterFunctions, func(prefix string) bool { return strings.HasPrefix(functionID, prefix) })
}

type frameHead struct {
	Type        string `json:"type"`
	FunctionID  string `json:"function_id"`
	TriggerType string `json:"trigger_type"`
}

func head(l line) frameHead {
	text := l.text
	if l.size > 0 { // what tells its kind comes first
		for _, payload := range []string{`,"data":`, `,"result":`} {
			before, _, _ := strings.Cut(string(text), payload)
			text = []byte(strings.TrimSuffix(before, "}") + "}")
		}
	}
	var f frameHead
	if json.Unmarshal(text, &f) != nil {
		return frameHead{} // junk
	}
	return f
}

// notBuilt reports the answer to a call of a function that is not built.
func notBuilt(l line) bool {
	f := head(l)
	return f.Type == "invocationresult" && later(f.FunctionID)
}

// notFound reports an answer that says that a function does not exist.
func notFound(frame any) bool {
	f, _ := frame.(map[string]any)
	e, _ := f["error"].(map[string]any)
	return e["code"] == "function_not_found"
}

// TestFramesOfWhatIsNotBuilt lists the recorded frames that ask for functions
// and trigger types that are not built or come later. Their answers are not
// compared.
func TestFramesOfWhatIsNotBuilt(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, name := range recordings(t) {
		for _, l := range recording(t, name) {
			f := head(l)
			switch {
			case l.dir != "w>e":
			case f.Type == "invokefunction" && later(f.FunctionID):
				fmt.Fprintf(&b, "%s calls %s\n", l.at(), f.FunctionID)
			case f.Type == "registertrigger" && slices.Contains(laterTypes, f.TriggerType):
				fmt.Fprintf(&b, "%s binds to %s\n", l.at(), f.TriggerType)
			}
		}
	}
	const file = "testdata/not-built.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-golden +found):\n%s", diff)
	}
}
