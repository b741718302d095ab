package viewer

import (
	"sort"
	"unicode/utf8"

	"github.com/iii-aws/harness/internal/agent"
)

// leftoverPieces is how many pieces of a draft still go out once its message
// is complete.
const leftoverPieces = 64

// draft is the message that is being streamed, as its viewers see it: the
// updates in order, those that add to one text put together. Viewers have a
// cursor in it.
type draft struct {
	messageID string
	attempt   int64
	// after is the tail of the log when the last update came: events up to it
	// go out before the draft.
	after int64
	rev   int64
	parts []part
}

// part is one update, or several that add to the same text.
type part struct {
	first agent.MessageUpdate
	// text, runes and revs are of the deltas; text is nil for other updates.
	text  []byte
	runes int
	revs  []revision
}

// revision is the delta that ends at a place of the text.
type revision struct {
	end int
	rev int64
}

// cursor is a place in a draft: a part, and bytes and runes of its text.
type cursor struct{ part, bytes, runes int }

// size is how far a cursor goes in the part; an update without text counts one.
func (p *part) size() int {
	if p.text == nil {
		return 1
	}
	return len(p.text)
}

// kinds are the block types of the events that add text.
var kinds = map[string]string{
	agent.LLMTextDelta:         agent.BlockText,
	agent.LLMThinkingDelta:     agent.BlockThinking,
	agent.LLMFunctionCallDelta: agent.BlockFunctionCall,
}

func newDraft(u agent.MessageUpdate) *draft {
	return &draft{messageID: u.MessageID, attempt: u.Attempt}
}

// continues reports whether an update belongs to the draft: the same stream of
// the same message, and not its beginning once more.
func (d *draft) continues(u agent.MessageUpdate) bool {
	switch {
	case d.messageID != u.MessageID || d.attempt != u.Attempt:
		return false
	case u.LLMEvent.Type == agent.LLMStart:
		return len(d.parts) == 0
	case kinds[u.LLMEvent.Type] == "" || u.Block != 0 || u.Offset != 0:
		return true
	}
	for i := range d.parts {
		if d.parts[i].text != nil {
			return false
		}
	}
	return true
}

// add takes an update, with the tail of the log at that time.
func (d *draft) add(u agent.MessageUpdate, tail int64) {
	d.after, d.rev = tail, u.Rev
	u.LLMEvent.Partial = nil
	if kinds[u.LLMEvent.Type] == "" {
		d.parts = append(d.parts, part{first: u})
		return
	}
	delta := u.LLMEvent.Delta
	if delta == "" {
		return
	}
	last := len(d.parts) - 1
	if last < 0 || !d.parts[last].takes(u) {
		u.LLMEvent.Delta = ""
		d.parts = append(d.parts, part{first: u, text: []byte{}})
		last++
	}
	p := &d.parts[last]
	p.text = append(p.text, delta...)
	p.runes += utf8.RuneCountInString(delta)
	p.revs = append(p.revs, revision{len(p.text), u.Rev})
}

// takes reports whether a delta goes on where the part ends.
func (p *part) takes(u agent.MessageUpdate) bool {
	return p.text != nil && p.first.LLMEvent.Type == u.LLMEvent.Type &&
		p.first.Block == u.Block && p.first.Offset+p.runes == u.Offset
}

// end is the place behind all updates.
func (d *draft) end() cursor {
	last := len(d.parts) - 1
	if last < 0 {
		return cursor{}
	}
	return cursor{last, d.parts[last].size(), d.parts[last].runes}
}

// settle moves a cursor from the end of a part to the next one, if there is.
func (d *draft) settle(c cursor) cursor {
	for c.part < len(d.parts)-1 && c.bytes >= d.parts[c.part].size() {
		c = cursor{part: c.part + 1}
	}
	return c
}

// pending reports whether there is anything behind the cursor.
func (d *draft) pending(c cursor) bool {
	c = d.settle(c)
	return c.part < len(d.parts) && c.bytes < d.parts[c.part].size()
}

// next is the update behind the cursor, and the place behind it. It may only
// be called if something is pending.
func (d *draft) next(c cursor) (agent.MessageUpdate, cursor) {
	c = d.settle(c)
	p := &d.parts[c.part]
	u := p.first
	if p.text == nil {
		return u, cursor{part: c.part, bytes: 1}
	}
	bytes, runes := page(p.text[c.bytes:])
	if whole := p.lastWhole(c.bytes + bytes); whole > c.bytes {
		bytes = whole - c.bytes
		runes = utf8.RuneCount(p.text[c.bytes:whole])
	}
	u.Offset += c.runes
	u.Rev = p.revAt(c.bytes + bytes)
	u.LLMEvent.Delta = string(p.text[c.bytes : c.bytes+bytes])
	return u, cursor{c.part, c.bytes + bytes, c.runes + runes}
}

// lastWhole is the end of the last delta that ends at or before a place, 0 if
// none does.
func (p *part) lastWhole(at int) int {
	i := sort.Search(len(p.revs), func(i int) bool { return p.revs[i].end > at })
	if i == 0 {
		return 0
	}
	return p.revs[i-1].end
}

// revAt is the revision of the delta that the byte before a place is of.
func (p *part) revAt(at int) int64 {
	return p.revs[sort.Search(len(p.revs)-1, func(i int) bool { return p.revs[i].end >= at })].rev
}

// short reports whether what is behind the cursor is worth sending although
// its message is complete.
func (d *draft) short(c cursor) bool {
	c = d.settle(c)
	size := 0
	for i := c.part; i < len(d.parts); i++ {
		size += len(d.parts[i].text)
	}
	return len(d.parts)-c.part <= leftoverPieces && size-c.bytes <= PageBytes
}
