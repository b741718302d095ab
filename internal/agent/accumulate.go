package agent

import (
	"strings"
	"unicode/utf8"
)

// Accumulator builds the message so far from the events of a provider's
// stream, which carry no copy of it. It is for one stream and one goroutine.
// The zero value is of no use.
type Accumulator struct {
	// msg is the message without its content until the terminal event, then
	// the final one.
	msg   Message
	parts []*part
	// open gets the deltas that name no block; nil if none does.
	open     *part
	streamed bool
	done     bool
}

// part is a block that grows.
type part struct {
	block Block
	index int
	text  strings.Builder
	// runes counts text, so that an offset costs nothing.
	runes int
}

// NewAccumulator starts from the empty assistant message.
func NewAccumulator(provider, model string, atMS int64) *Accumulator {
	return &Accumulator{msg: EmptyAssistant(provider, model, atMS)}
}

// Delta says where the text of a delta event went.
type Delta struct {
	// Block is the index of the content block, Offset the runes it had before.
	Block, Offset int
}

// Apply takes the next event. ok is true for events that add text, thinking or
// argument text. A delta goes to the open block of its kind, or begins a block
// if there is none; that of a call may name its block by the id it was started
// with. Events after the terminal one change nothing, nor do unknown ones.
func (a *Accumulator) Apply(e LLMEvent) (d Delta, ok bool) {
	if a.done {
		return Delta{}, false
	}
	switch e.Type {
	case LLMTextStart:
		a.start(BlockText, e)
	case LLMThinkingStart:
		a.start(BlockThinking, e)
	case LLMFunctionCallStart:
		a.start(BlockFunctionCall, e)
	case LLMTextDelta:
		return a.add(BlockText, e), true
	case LLMThinkingDelta:
		return a.add(BlockThinking, e), true
	case LLMFunctionCallDelta:
		return a.add(BlockFunctionCall, e), true
	case LLMTextEnd, LLMFunctionCallEnd:
		a.open = nil
	case LLMThinkingEnd:
		a.sign(e.Signature)
		a.open = nil
	case LLMUsage:
		a.msg.Usage = a.msg.Usage.merged(e.Usage)
	case LLMStop:
		a.stop(e)
	case LLMDone:
		a.finish(e.Message)
	case LLMError:
		a.fail(e)
	}
	return Delta{}, false
}

// Done reports whether the terminal event was seen.
func (a *Accumulator) Done() bool { return a.done }

// Streamed reports whether deltas with text or thinking were seen.
func (a *Accumulator) Streamed() bool { return a.streamed }

// Message is the message so far, or the final one. It shares nothing with the
// accumulator or with what was applied.
func (a *Accumulator) Message() Message {
	m := a.msg.Clone()
	if a.done {
		return m
	}
	m.Content = make([]Block, len(a.parts))
	for i, p := range a.parts {
		m.Content[i] = p.value()
	}
	return m
}

func (p *part) value() Block {
	b := p.block
	if b.Type == BlockFunctionCall {
		b.Arguments = streamed(p.text.String())
	} else {
		b.Text = p.text.String()
	}
	return b
}

func (a *Accumulator) start(kind string, e LLMEvent) *part {
	p := &part{block: Block{Type: kind}, index: len(a.parts)}
	if kind == BlockFunctionCall {
		p.block.ID, p.block.ProviderCallID, p.block.FunctionID = e.ID, e.ID, e.FunctionID
	}
	a.parts = append(a.parts, p)
	a.open = p
	return p
}

func (a *Accumulator) add(kind string, e LLMEvent) Delta {
	p := a.target(kind, e)
	d := Delta{Block: p.index, Offset: p.runes}
	p.text.WriteString(e.Delta)
	p.runes += utf8.RuneCountInString(e.Delta)
	a.streamed = a.streamed || kind != BlockFunctionCall && e.Delta != ""
	return d
}

// target is the block that a delta goes to.
func (a *Accumulator) target(kind string, e LLMEvent) *part {
	if kind == BlockFunctionCall && e.ID != "" {
		for i := len(a.parts) - 1; i >= 0; i-- {
			if p := a.parts[i]; p.block.Type == kind && p.block.ID == e.ID {
				return p
			}
		}
		return a.start(kind, e)
	}
	if a.open != nil && a.open.block.Type == kind {
		return a.open
	}
	return a.start(kind, e)
}

// sign puts a signature on the last thinking.
func (a *Accumulator) sign(signature string) {
	if signature == "" {
		return
	}
	for i := len(a.parts) - 1; i >= 0; i-- {
		if p := a.parts[i]; p.block.Type == BlockThinking {
			p.block.Signature = signature
			return
		}
	}
}

func (a *Accumulator) stop(e LLMEvent) {
	a.open = nil
	if e.StopReason != "" {
		a.msg.StopReason = e.StopReason
	}
	a.msg.ErrorMessage, a.msg.ErrorKind = copied(e.ErrorMessage), copied(e.ErrorKind)
}

// finish takes the final message. What is no message of an assistant is not
// taken: then what was streamed is final.
func (a *Accumulator) finish(m *Message) {
	final := a.Message()
	if m != nil && m.Role == RoleAssistant {
		final = m.Clone()
	}
	a.msg, a.parts, a.open, a.done = final, nil, nil, true
}

// fail takes the final message of a failed call, which is an error whatever it
// says of itself.
func (a *Accumulator) fail(e LLMEvent) {
	a.finish(e.Err)
	m := &a.msg
	if m.StopReason != StopAborted {
		m.StopReason = StopError
	}
	if m.ErrorMessage == nil {
		m.ErrorMessage = copied(e.ErrorMessage)
	}
	if m.ErrorKind == nil {
		m.ErrorKind = copied(e.ErrorKind)
	}
}
