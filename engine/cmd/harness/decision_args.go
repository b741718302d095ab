package main

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
)

// decisionLimit is how many bytes of a call's arguments a person is shown.
const decisionLimit = 16 << 10

// decisionArgs is a call's arguments where a person decides on them: to the
// letter, and if they are too long, with the number of bytes that are missing.
func (a *app) decisionArgs(session string, args json.RawMessage) string {
	if len(args) <= decisionLimit {
		return string(args)
	}
	cut := decisionLimit
	for cut > 0 && !utf8.RuneStart(args[cut]) {
		cut--
	}
	id, err := json.Marshal(session)
	if err != nil {
		panic(err) // a string always encodes
	}
	return fmt.Sprintf("%s\n  (%d more bytes: %s call turn::get_state '{\"session_id\":%s}')", args[:cut], len(args)-cut, a.name(), id)
}

// waitingCalls looks up the whole arguments of calls that wait, each session
// once.
type waitingCalls struct {
	bus      bus.Invoker
	sessions map[string]map[string]json.RawMessage
}

// args is the whole arguments of a call; nil if it waits no longer or may not
// be seen.
func (w *waitingCalls) args(ctx context.Context, session, id string) (json.RawMessage, error) {
	calls, ok := w.sessions[session]
	if !ok {
		var view agent.TurnStateView
		err := call(ctx, w.bus, "turn::get_state", map[string]string{"session_id": session}, &view)
		if err != nil && bus.Code(err) != protocol.CodeForbidden {
			return nil, err
		}
		calls = map[string]json.RawMessage{}
		for _, c := range view.AwaitingApproval {
			calls[c.FunctionCallID] = c.Args
		}
		w.sessions[session] = calls
	}
	return calls[id], nil
}

// withArgs adds the whole arguments to a row; without them it stays as it is.
func withArgs(row, args json.RawMessage) any {
	var members map[string]json.RawMessage
	if args == nil || json.Unmarshal(row, &members) != nil {
		return row
	}
	members["args"] = args
	return members
}
