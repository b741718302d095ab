package viewer

import "github.com/iii-aws/harness/engine/stream"

// Position is how far somebody read a session's events.
type Position struct {
	// Epoch is the log's; empty means the log of now.
	Epoch string `json:"epoch"`
	// Seq is the last event seen, -1 for none.
	Seq int64 `json:"seq"`
}

// Reset says why a position cannot be continued from. The viewer then has to
// load the session again, and goes on from the position that came with it.
type Reset string

// The reasons of a reset.
const (
	EpochChanged Reset = "epoch_changed"
	Expired      Reset = "expired"
	Ahead        Reset = "ahead"
)

// start is the first event to send to a viewer with that position, nil for live
// events alone. Whether the log still reaches back that far is found when it is
// read.
func start(at *Position, head stream.Head) (int64, Reset) {
	switch {
	case at == nil:
		return head.Tail + 1, ""
	case at.Epoch != "" && at.Epoch != head.Epoch:
		return head.Tail + 1, EpochChanged
	case at.Seq > head.Tail:
		return head.Tail + 1, Ahead
	}
	return at.Seq + 1, ""
}
