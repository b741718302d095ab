package step

// State is where a turn is.
type State string

// The states of a turn. Stopped and Failed are terminal.
const (
	Provisioning State = "provisioning"
	Streaming    State = "assistant_streaming"
	Executing    State = "function_execute"
	Awaiting     State = "function_awaiting_approval"
	Steering     State = "steering_check"
	Stopped      State = "stopped"
	Failed       State = "failed"
)

// Terminal reports whether a run that is here has ended.
func (s State) Terminal() bool { return s == Stopped || s == Failed }

// Known reports whether this code knows the state.
func (s State) Known() bool {
	switch s {
	case Provisioning, Streaming, Executing, Awaiting, Steering, Stopped, Failed:
		return true
	}
	return false
}
