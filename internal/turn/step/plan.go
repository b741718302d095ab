package step

import (
	"bytes"

	"github.com/iii-aws/harness/internal/agent"
)

// plan makes the batch of an assistant message, in block order. Calls that
// cannot be dispatched get their result here.
func (r *Record) plan(m agent.Message) {
	r.Work = &Work{Executed: map[string]Executed{}}
	r.Ledger = map[string]Mark{}
	cut := m.StopReason == agent.StopLength
	for i, b := range m.Content {
		if b.Type != agent.BlockFunctionCall {
			continue
		}
		functionID, args, ok := Unwrap(b)
		p := Prepared{Route: Dispatch, Block: i, Call: Call{ID: b.ID, FunctionID: functionID, Arguments: Value{Raw: args}}}
		if f := refuse(b, functionID, ok, cut); f != nil {
			v := Of(f.Outcome().Result)
			p.Route, p.Result = Synthetic, &v
		}
		r.Work.Prepared = append(r.Work.Prepared, p)
		r.Ledger[b.ID] = Mark{State: MarkPrepared}
	}
}

// refuse says why a call is not dispatched, nil if it is.
func refuse(b agent.Block, functionID string, object, cut bool) *Failure {
	switch {
	case cut:
		return &Failure{Code: CodeTruncated, Function: functionID,
			Message: "The message was cut at its length limit, so none of its calls was run. Make the call again with shorter arguments."}
	case b.FunctionID != ToolName:
		return &Failure{Code: CodeUnknownTool, Function: b.FunctionID,
			Message: "There is one tool, " + ToolName + ": name the target in its argument function."}
	case unread(b):
		return &Failure{Code: CodeInvalidArguments, Message: "The arguments are no JSON object with each member once."}
	case functionID == "":
		return &Failure{Code: CodeMissingFunction, Message: "The argument function must be the id of a function, as a string."}
	case !object:
		return &Failure{Code: CodeInvalidArguments, Function: functionID, Message: "The argument payload must be a JSON object."}
	}
	return nil
}

// unread reports whether the argument text of a call could not be read.
func unread(b agent.Block) bool {
	args := agent.Arguments(b.Arguments)
	return bytes.Equal(args, []byte("null")) || !isObject(unquote(args))
}
