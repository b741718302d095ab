package embedded

// The moments of a FaultHook.
const (
	// FaultBefore: nothing of the operation has happened.
	FaultBefore = "before"
	// FaultAfter: it is durable, and nobody has been told.
	FaultAfter = "after"
)

// FaultCommit is the operation name of a commit; all others are names of
// submitted operations, such as "state.submit".
const FaultCommit = "commit"

// FaultHook is called around each submitted operation and around each commit
// to the disk, on the committer's goroutine. It may block or end the process.
// An error makes the operation fail: with FaultBefore it is not applied, with
// FaultAfter it was applied and its ticket ends with an ambiguous error, as
// when an answer is lost. An error around a commit does so to the whole batch.
//
// The durable points of a run are the calls with FaultCommit and FaultBefore.
type FaultHook func(op, when string) error

func (h FaultHook) call(op, when string) error {
	if h == nil {
		return nil
	}
	return h(op, when)
}
