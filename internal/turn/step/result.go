package step

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/iii-aws/harness/internal/agent"
)

// Outcome is what a call came to, in the form that the model gets.
type Outcome struct {
	Result  agent.FunctionResult
	IsError bool
}

// Failure is an error result: its details carry the code, and its text is the
// details as JSON, so that a model that sees only text loses nothing.
type Failure struct {
	Code           string `json:"error"`
	Function       string `json:"function,omitempty"`
	Hint           string `json:"hint,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Message        string `json:"message,omitempty"`
}

// Outcome is the failure as a result.
func (f Failure) Outcome() Outcome { return failed(encode(f)) }

func failed(details json.RawMessage) Outcome {
	return Outcome{IsError: true, Result: agent.FunctionResult{
		Content: []agent.Block{agent.Text(string(details))}, Details: details,
	}}
}

// The codes of error results.
const (
	CodeFunctionNotFound  = "function_not_found"
	CodeTimeout           = "timeout"
	CodeHandlerError      = "handler_error"
	CodeMissingFunction   = "missing_function"
	CodeUnknownTool       = "unknown_tool"
	CodeInvalidArguments  = "invalid_arguments"
	CodeTruncated         = "arguments_truncated"
	CodeOutcomeUnknown    = "outcome_unknown"
	CodeInterrupted       = "interrupted"
	CodeInvocationStopped = "invocation_stopped"
	CodeSendFailed        = "channel_send_failed"
)

// FromReply is the result of a reply. A reply that is an object with an array
// of content blocks is a result already; anything else becomes one text block
// and is kept whole in the details.
func FromReply(reply json.RawMessage) Outcome {
	reply = orNull(reply)
	var own struct {
		Content   *[]agent.Block  `json:"content"`
		Details   json.RawMessage `json:"details"`
		Terminate json.RawMessage `json:"terminate"`
	}
	if isObject(reply) && json.Unmarshal(reply, &own) == nil && own.Content != nil {
		out := Outcome{Result: agent.FunctionResult{Content: *own.Content, Details: orObject(own.Details)}}
		out.Result.Terminate = string(own.Terminate) == "true"
		out.IsError = isErrorDetails(out.Result.Details)
		return out
	}
	text := string(reply)
	var s string
	if isText(reply) && json.Unmarshal(reply, &s) == nil {
		text = s
	}
	return Outcome{
		Result:  agent.FunctionResult{Content: []agent.Block{agent.Text(text)}, Details: reply},
		IsError: isErrorDetails(reply),
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// isErrorDetails: details that name an error, or say that the call was denied.
func isErrorDetails(details json.RawMessage) bool {
	var d struct {
		Error  json.RawMessage `json:"error"`
		Status json.RawMessage `json:"status"`
	}
	if json.Unmarshal(details, &d) != nil {
		return false
	}
	return isText(d.Error) || string(d.Status) == `"denied"`
}

// Ambiguous reports whether a call that ended with this code may have had its
// effect: it was cut off after it was sent.
func Ambiguous(code string) bool { return code == CodeInvocationStopped || code == CodeSendFailed }

// FromError is the result of a call that failed with a code and a message. The
// message is the target's own; it was cleaned of secrets by the caller.
func FromError(c Call, code, message string) Outcome {
	switch {
	case code == CodeFunctionNotFound || message == CodeFunctionNotFound:
		return Failure{Code: CodeFunctionNotFound, Function: c.FunctionID, Hint: Hint(c.FunctionID)}.Outcome()
	case code == CodeTimeout || code == "TIMEOUT" || strings.HasPrefix(message, "Timeout") || strings.Contains(message, "timed out"):
		return Failure{Code: CodeTimeout, Function: c.FunctionID, Message: message}.Outcome()
	case Ambiguous(code):
		return Unknown(c)
	}
	if details, ok := handlerError(message); ok {
		return failed(details)
	}
	return Denial{By: DeniedByGate, FunctionID: c.FunctionID, Reason: "trigger_failed: " + code + ": " + message}.Outcome()
}

// Unknown is the result of a call that was started and whose outcome nobody
// can tell.
func Unknown(c Call) Outcome {
	return Failure{
		Code: CodeOutcomeUnknown, Function: c.FunctionID, IdempotencyKey: c.ID,
		Message: "The call was started, then its outcome was lost. It may or may not have had its effect: check before you try it again.",
	}.Outcome()
}

// Interrupted is the result that closes a call of an earlier run.
func Interrupted(functionID string) Outcome {
	return Failure{
		Code: CodeInterrupted, Function: functionID,
		Message: "The call was interrupted before its result was stored. It may or may not have run.",
	}.Outcome()
}

var codePrefix = regexp.MustCompile(`^[A-Za-z0-9_.]+: `)

// handlerError is the details of a message that is a JSON error of the target,
// with or without error codes in front of it.
func handlerError(message string) (json.RawMessage, bool) {
	for range 3 {
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(message), &m) == nil && isText(m["code"]) && isText(m["message"]) {
			m["error"] = encode(CodeHandlerError)
			return encode(m), true
		}
		message = codePrefix.ReplaceAllString(message, "")
	}
	return nil, false
}

func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }
