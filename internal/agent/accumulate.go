package agent

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Accumulator builds the message so far from the events of a provider's
// stream, which carry no copy of it. It is for one stream and one goroutine.
type Accumulator struct {
	msg  Message
	open string // type of the block that deltas go to, "" for none
	args bytes.Buffer
	// runes counts the text of the open block, so that an offset costs
	// nothing.
	runes int
	done  bool
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
// argument text. Events after the terminal one change nothing.
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
		a.end()
	case LLMThinkingEnd:
		if a.open == BlockThinking && e.Signature != "" {
			a.last().Signature = e.Signature
		}
		a.end()
	case LLMUsage:
		a.msg.Usage = mergeUsage(a.msg.Usage, e.Usage)
	case LLMStop:
		a.end()
		a.msg.StopReason, a.msg.ErrorMessage, a.msg.ErrorKind = e.StopReason, e.ErrorMessage, e.ErrorKind
	case LLMDone:
		a.finish(e.Message)
	case LLMError:
		a.finish(e.Err)
	}
	return Delta{}, false
}

// Done reports whether the terminal event was seen.
func (a *Accumulator) Done() bool { return a.done }

// Streamed reports whether text or thinking was seen.
func (a *Accumulator) Streamed() bool {
	for _, b := range a.msg.Content {
		if (b.Type == BlockText || b.Type == BlockThinking) && b.Text != "" {
			return true
		}
	}
	return false
}

// Message is the message so far, or the final one. It shares no memory with
// what later events change.
func (a *Accumulator) Message() Message {
	m := a.msg
	m.Content = append([]Block{}, a.msg.Content...)
	if a.open == BlockFunctionCall && len(m.Content) > 0 {
		m.Content[len(m.Content)-1].Arguments = Arguments(a.args.Bytes())
	}
	return m
}

func (a *Accumulator) start(kind string, e LLMEvent) {
	a.end()
	a.open, a.runes = kind, 0
	b := Block{Type: kind}
	if kind == BlockFunctionCall {
		b.ProviderCallID, b.FunctionID, b.Arguments = e.ID, e.FunctionID, json.RawMessage("{}")
		b.ID = e.ID
	}
	a.msg.Content = append(a.msg.Content, b)
}

func (a *Accumulator) add(kind string, e LLMEvent) Delta {
	if a.open != kind {
		a.start(kind, e)
	}
	d := Delta{Block: len(a.msg.Content) - 1, Offset: a.runes}
	if kind == BlockFunctionCall {
		a.args.WriteString(e.Delta)
	} else {
		a.last().Text += e.Delta
	}
	a.runes += utf8.RuneCountInString(e.Delta)
	return d
}

func (a *Accumulator) end() {
	if a.open == BlockFunctionCall {
		a.last().Arguments = Arguments(a.args.Bytes())
		a.args.Reset()
	}
	a.open = ""
}

func (a *Accumulator) finish(m *Message) {
	a.end()
	a.done = true
	if m != nil {
		a.msg = *m
	}
}

func (a *Accumulator) last() *Block { return &a.msg.Content[len(a.msg.Content)-1] }

// Arguments is streamed argument text as a value: {} when empty, null when it
// does not parse or names a member twice.
func Arguments(text []byte) json.RawMessage {
	t := bytes.TrimSpace(text)
	if len(t) == 0 {
		return json.RawMessage("{}")
	}
	if !json.Valid(t) || repeatsKey(t) {
		return json.RawMessage("null")
	}
	return append(json.RawMessage(nil), t...)
}

// repeatsKey reports whether an object anywhere in valid JSON has a key twice:
// readers disagree on which one counts.
func repeatsKey(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	type level struct {
		keys map[string]bool // nil for an array
		key  bool            // the next token is a key
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		top := len(stack) - 1
		if d, ok := tok.(json.Delim); ok {
			switch d {
			case '{':
				stack = append(stack, level{keys: map[string]bool{}, key: true})
			case '[':
				stack = append(stack, level{})
			default:
				stack = stack[:top]
				if top > 0 && stack[top-1].keys != nil {
					stack[top-1].key = true
				}
			}
			continue
		}
		if top < 0 || stack[top].keys == nil {
			continue
		}
		if !stack[top].key {
			stack[top].key = true
			continue
		}
		k, _ := tok.(string)
		if stack[top].keys[k] {
			return true
		}
		stack[top].keys[k] = true
		stack[top].key = false
	}
}

func mergeUsage(old, next *Usage) *Usage {
	if next == nil {
		return old
	}
	if old == nil {
		u := *next
		return &u
	}
	u := *old
	set := func(dst **int64, v *int64) {
		if v != nil {
			*dst = v
		}
	}
	set(&u.Input, next.Input)
	set(&u.Output, next.Output)
	set(&u.CacheRead, next.CacheRead)
	set(&u.CacheWrite, next.CacheWrite)
	if next.CostUSD != nil {
		u.CostUSD = next.CostUSD
	}
	return &u
}
