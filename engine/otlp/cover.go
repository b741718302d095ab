package otlp

import (
	"bytes"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/redact"
)

// cover covers what looks like a secret. An attribute is a pair of members key
// and value, so its name is not where a walk over JSON looks for it.
func cover(payload []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	coverPairs(doc)
	b, err := bus.Encode(doc)
	if err != nil {
		return nil, err
	}
	return redact.Telemetry(b), nil
}

func coverPairs(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			coverPairs(x)
		}
	case map[string]any:
		for _, x := range v {
			coverPairs(x)
		}
		if name, ok := v["key"].(string); ok && v["value"] != nil {
			v["value"] = coverValue(name, v["value"])
		}
	}
}

// coverValue is the value of an attribute, or a text in its place if its name
// says that it is a secret.
func coverValue(name string, value any) any {
	hidden := map[string]string{"stringValue": "[REDACTED]"}
	b, err := bus.Encode(map[string]any{name: value})
	if err != nil {
		return hidden
	}
	var back map[string]json.RawMessage
	if json.Unmarshal(redact.Telemetry(b), &back) != nil || len(back[name]) == 0 || back[name][0] != '{' {
		return hidden
	}
	return back[name]
}
