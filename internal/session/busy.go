package session

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// turnWorker is the only worker that may append while a turn runs.
const turnWorker = "turn-orchestrator"

// compactionWorker shortens the transcript for the turn that waits for it.
const compactionWorker = "context-compaction"

func ofTurn(call *bus.Call) bool { return call.Worker == turnWorker }

// forTurn reports whether a call may change a session while a turn runs.
func forTurn(call *bus.Call) bool { return ofTurn(call) || call.Worker == compactionWorker }

// idle refuses foreign callers while a turn runs. The writes it gives belong
// into the caller's transaction, which then fails if a turn has started
// meanwhile.
func (s *Session) idle(ctx context.Context, call *bus.Call, id string) ([]state.Write, error) {
	if forTurn(call) {
		return nil, nil
	}
	runs, version, err := s.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if runs {
		return nil, &Error{Kind: Busy, Session: id, Detail: "a turn has not ended; steer it by session-inbox::push"}
	}
	still := state.Write{Key: state.Key{Scope: agent.ScopeTurnState, Key: id}, Kind: state.KindCheck}
	if version == 0 {
		return []state.Write{still.IfAbsent()}, nil
	}
	return []state.Write{still.IfVersion(version)}, nil
}

// running reports whether a turn runs. A state that is not known here, such as
// one of newer code, counts as running.
func (s *Session) running(ctx context.Context, id string) (bool, int64, error) {
	var rec struct {
		State string `json:"state"`
	}
	version, err := s.read(ctx, id, "turn", state.Key{Scope: agent.ScopeTurnState, Key: id}, &rec)
	return version != 0 && rec.State != "stopped" && rec.State != "failed", version, err
}
