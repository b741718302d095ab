package step

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
)

// ToolName is the one tool that a model has.
const ToolName = "agent_trigger"

// Unwrap reads the target and its arguments out of a call of the tool. ok is
// false if the payload is no object; args is then what it was. Texts that hold
// an object or an array count as what they hold; an absent payload is {}.
func Unwrap(b agent.Block) (functionID string, args json.RawMessage, ok bool) {
	var tool map[string]json.RawMessage // a struct would take Function for function
	outer := unquote(b.Arguments)
	if json.Unmarshal(outer, &tool) != nil || !isObject(outer) {
		return "", orObject(outer), false
	}
	if json.Unmarshal(tool["function"], &functionID) != nil {
		functionID = ""
	}
	args = orObject(unquote(tool["payload"]))
	return functionID, withoutCaller(args), isObject(args)
}

// withoutCaller leaves out the member by which the bus names the connection
// that calls: targets trust it, and a model is none.
func withoutCaller(args json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if !isObject(args) || json.Unmarshal(args, &members) != nil {
		return args
	}
	for name := range members {
		if strings.EqualFold(name, protocol.CallerWorkerID) {
			if rest, err := protocol.RemoveMember(args, protocol.CallerWorkerID); err == nil {
				return rest
			}
			return json.RawMessage("{}")
		}
	}
	return args
}

// unquote is the object or array that a JSON string holds, else raw itself.
func unquote(raw json.RawMessage) json.RawMessage {
	var s string
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '"' || json.Unmarshal(t, &s) != nil {
		return raw
	}
	s = strings.TrimSpace(s)
	if s == "" || (s[0] != '{' && s[0] != '[') {
		return raw
	}
	held := agent.Arguments([]byte(s))
	if bytes.Equal(held, []byte("null")) {
		return raw
	}
	return held
}

func orObject(raw json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(raw); len(t) == 0 || bytes.Equal(t, []byte("null")) {
		return json.RawMessage("{}")
	}
	return raw
}

func isObject(raw json.RawMessage) bool {
	t := bytes.TrimSpace(raw)
	return len(t) > 0 && t[0] == '{'
}
