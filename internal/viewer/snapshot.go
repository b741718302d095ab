package viewer

import "github.com/iii-aws/harness/internal/agent"

// snapshot is the next page of the text up to a place of the draft, for a
// viewer that was not there when it was streamed. ok is false when all of it
// was sent; next is then that place.
func (d *draft) snapshot(c, end cursor, rev int64) (u agent.MessageUpdate, next cursor, ok bool) {
	for c = d.settle(c); before(c, end); c = d.settle(cursor{part: c.part, bytes: d.parts[c.part].size()}) {
		p := &d.parts[c.part]
		if p.text == nil {
			if d.emptyCall(c.part, end) {
				return d.snap(c.part, agent.BlockFunctionCall, rev), cursor{part: c.part, bytes: 1}, true
			}
			continue
		}
		text := p.text
		if c.part == end.part {
			text = text[:end.bytes]
		}
		bytes, runes := page(text[c.bytes:])
		next = cursor{c.part, c.bytes + bytes, c.runes + runes}
		u = d.snap(c.part, kinds[p.first.LLMEvent.Type], rev)
		u.Offset = p.first.Offset + c.runes
		u.LLMEvent.Text = string(text[c.bytes:next.bytes])
		u.LLMEvent.More = next.bytes < len(text) || d.goesOn(c.part, end)
		return u, next, true
	}
	return u, end, false
}

// snap is a snapshot of the block that a part belongs to, without its text.
func (d *draft) snap(at int, kind string, rev int64) agent.MessageUpdate {
	of := d.parts[at].first
	u := agent.MessageUpdate{
		Type: of.Type, MessageID: d.messageID, Attempt: d.attempt, Rev: rev, Block: of.Block,
		LLMEvent: agent.LLMEvent{Type: agent.LLMSnapshot, Kind: kind},
	}
	if kind != agent.BlockFunctionCall {
		return u
	}
	for ; at >= 0; at-- {
		if e := d.parts[at].first.LLMEvent; e.Type == agent.LLMFunctionCallStart {
			u.LLMEvent.ID, u.LLMEvent.FunctionID = e.ID, e.FunctionID
			return u
		}
	}
	return u
}

// emptyCall reports whether a part starts a call that has no argument text yet.
func (d *draft) emptyCall(at int, end cursor) bool {
	if d.parts[at].first.LLMEvent.Type != agent.LLMFunctionCallStart {
		return false
	}
	next := at + 1
	return next > end.part || d.parts[next].first.LLMEvent.Type != agent.LLMFunctionCallDelta
}

// goesOn reports whether a later part before the end adds to the same block.
func (d *draft) goesOn(at int, end cursor) bool {
	for i := at + 1; i <= end.part; i++ {
		if d.parts[i].text != nil {
			return d.parts[i].first.Block == d.parts[at].first.Block
		}
	}
	return false
}

func before(a, b cursor) bool {
	return a.part < b.part || a.part == b.part && a.bytes < b.bytes
}
