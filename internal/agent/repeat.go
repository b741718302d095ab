package agent

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Repeater adds to the events of one provider's stream the message so far,
// which stock consumers expect in each of them. Our own readers build it by
// themselves: repeated, it costs the square of the answer's length.
type Repeater struct{ acc *Accumulator }

// NewRepeater begins with the empty message.
func NewRepeater() *Repeater { return &Repeater{NewAccumulator("", "", 0)} }

// Next is the next event with its member partial. Terminal events, usage and
// stop have none; what is no event stays as it is.
func (r *Repeater) Next(text []byte) []byte {
	var e LLMEvent
	if json.Unmarshal(text, &e) != nil {
		return text
	}
	switch e.Type {
	case LLMStart, LLMTextStart, LLMTextDelta, LLMTextEnd, LLMThinkingStart, LLMThinkingDelta, LLMThinkingEnd,
		LLMFunctionCallStart, LLMFunctionCallDelta, LLMFunctionCallEnd:
		r.acc.Apply(e)
	case LLMUsage, LLMStop:
		r.acc.Apply(e)
		return text
	default:
		return text
	}
	partial, err := bus.Encode(r.acc.Message())
	if err != nil {
		return text
	}
	out, err := protocol.SetMember(text, "partial", partial)
	if err != nil {
		return text
	}
	return out
}
