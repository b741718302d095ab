package trigger

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// stateConfig is the config of a state trigger. What is absent matches everything, what is there matches exactly.
type stateConfig struct {
	Scope     *string `json:"scope,omitempty"`
	Key       *string `json:"key,omitempty"`
	Condition string  `json:"condition_function_id,omitempty"` // read by newBinding, here for its type and schema
}

// streamConfig is the config of a stream trigger. The empty string matches everything.
type streamConfig struct {
	Stream    string `json:"stream_name"`
	Group     string `json:"group_id,omitempty"`
	Item      string `json:"item_id,omitempty"`
	Condition string `json:"condition_function_id,omitempty"`
}

// match says which changes concern a binding. Nil matches everything.
type match struct {
	first, second, third *string // scope, key; or stream, group, item
}

func readState(config json.RawMessage) (*match, error) {
	var c stateConfig
	if err := readConfig(config, &c, "StateTriggerConfig"); err != nil {
		return nil, err
	}
	return &match{first: c.Scope, second: c.Key}, nil
}

func readStream(config json.RawMessage) (*match, error) {
	var c streamConfig
	if err := readConfig(config, &c, "StreamTriggerConfig"); err != nil {
		return nil, err
	}
	return &match{first: unlessEmpty(c.Stream), second: unlessEmpty(c.Group), third: unlessEmpty(c.Item)}, nil
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// readConfig reads a config, which must be an object. Other JSON is named as the iii engine names it, which reads the
// object into a struct.
func readConfig(config json.RawMessage, v any, name string) error {
	detail := ""
	if kind := input.Describe(config); kind == "map" {
		detail = input.Read(config, v)
	} else {
		detail = "invalid type: " + kind + ", expected struct " + name
	}
	if detail == "" {
		return nil
	}
	return failed("Failed to parse trigger config: " + detail)
}

func failed(message string) error {
	return &bus.Error{Code: protocol.CodeTriggerRegistrationFailed, Message: message}
}

func (m *match) state(k state.Key) bool {
	return same(m.first, k.Scope) && same(m.second, k.Key)
}

func (m *match) stream(k stream.Key) bool {
	return same(m.first, k.Stream) && same(m.second, k.Group) && same(m.third, k.Item)
}

func same(want *string, got string) bool { return want == nil || *want == got }

// own reports whether a scope holds records of the bus itself, which no trigger sees.
func own(scope string) bool { return strings.HasPrefix(scope, "engine:") }

// schemas of the types that the bus provides.
var (
	stateConfigSchema   = input.Schema(reflect.TypeFor[stateConfig]())
	streamConfigSchema  = input.Schema(reflect.TypeFor[streamConfig]())
	statePayloadSchema  = input.Schema(reflect.TypeFor[statePayload]())
	streamPayloadSchema = input.Schema(reflect.TypeFor[streamPayload]())
)
