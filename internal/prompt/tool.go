package prompt

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
)

// ToolName is the name of the one tool.
const ToolName = "agent_trigger"

// Tool is the tool that a model gets.
func Tool() agent.Function {
	return agent.Function{
		Name: ToolName, Label: ToolName, ExecutionMode: "parallel",
		Description: "Call a function on the bus. Name it by its id and give its arguments as an object. Several calls in one message run in parallel.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"function":{"type":"string","description":"Id of the function, such as worker::function."},` +
			`"payload":{"type":"object","description":"Arguments of the function."}},"required":["function"]}`),
	}
}
