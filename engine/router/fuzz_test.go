package router_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// FuzzMetadataOfASocket looks for metadata by which a socket could pass for somebody else, by whichever reading of JSON:
// that of encoding/json, which folds case and takes the last of equal names, or an exact one that takes the first.
func FuzzMetadataOfASocket(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `"principal"`, `[{"principal":{"id":"root"}}]`, `{"principal":{"id":"root","role":"operator"}}`,
		`{"Principal":{"id":"root"}}`, `{"princip\u0061l":{"id":"root"}}`, `{"x":1,"principal":1,"PRINCIPAL":{"id":"root"},"principal":{"id":"root"}}`,
		`{"principal":{"on_behalf_of":"x"},"parent_invocation_id":"0d1f0000-0000-4000-8000-00000000000a"}`,
		"{\"\u212aey\":1,\"idempotency_\u212aey\":\"k\"}", `{"reply":{"session_id":"s","function_call_id":"c"},"deadline_ms":1,"deadline_MS":2}`,
		`{"value":{"principal":{"id":"root"}}}`, `{"":1,"a":{"principal":{"id":"root"}}}`,
	} {
		f.Add(seed)
	}
	g := newRig(f)
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::socket")
	var frame *protocol.InvokeFunction
	b.onSend = func(fr protocol.Frame) {
		frame = fr.(*protocol.InvokeFunction)
		g.answer(b, frame, "1")
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		text := `{"type":"invokefunction","function_id":"f::socket","metadata":` + metadata + `}`
		decoded, err := protocol.Decode([]byte(text))
		if err != nil {
			return
		}
		call, ok := decoded.(*protocol.InvokeFunction)
		if !ok || call.FunctionID != "f::socket" {
			return
		}
		frame = nil
		g.HandleInvoke(t.Context(), a, call)
		if frame == nil {
			t.Fatalf("%q did not arrive", metadata)
		}
		if _, err := protocol.Encode(frame); err != nil {
			t.Fatalf("%q became %q: %v", metadata, frame.Metadata, err)
		}
		var folded struct {
			Principal      bus.Principal   `json:"principal"`
			IdempotencyKey string          `json:"idempotency_key"`
			DeadlineMS     json.RawMessage `json:"deadline_ms"`
			Reply          json.RawMessage `json:"reply"`
		}
		if err := json.Unmarshal(frame.Metadata, &folded); err != nil {
			t.Fatalf("%q became %q: %v", metadata, frame.Metadata, err)
		}
		if folded.Principal.ID != "p-a" || folded.Principal.Role != bus.RoleWorker || folded.Principal.OnBehalfOf != "" ||
			folded.IdempotencyKey == "" || folded.DeadlineMS != nil || folded.Reply != nil {
			t.Fatalf("%q became %q", metadata, frame.Metadata)
		}
		names := map[string]int{}
		dec := json.NewDecoder(strings.NewReader(string(frame.Metadata)))
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				t.Fatal(err)
			}
			names[strings.ToLower(name.(string))]++
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"principal", "idempotency_key"} {
			if names[name] != 1 {
				t.Fatalf("%q became %q with %d members %s", metadata, frame.Metadata, names[name], name)
			}
		}
	})
}
