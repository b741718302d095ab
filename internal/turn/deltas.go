package turn

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
)

// deltaBytes is how much text one update carries at most.
const deltaBytes = 8 << 10

// deltas turns the events of a stream into the updates that viewers get:
// deltas of one kind that follow each other become one, the first at once, the
// others when the window is over. It is for one goroutine.
type deltas struct {
	post   func(agent.MessageUpdate)
	clock  clock.Clock
	window time.Duration
	// head is what all updates of the message have in common.
	head agent.MessageUpdate
	// callID names the call in a block.
	callID func(block int) string

	rev   int64
	block int
	// open is the update that gathers text; its kind is empty if there is none.
	open   agent.MessageUpdate
	text   strings.Builder
	timer  clock.Timer
	queued []agent.MessageUpdate
	// held: nothing may go out yet.
	held bool
	// shown: something that a person sees has been told.
	shown bool
}

// add takes an event and, for deltas, where its text went.
func (d *deltas) add(e agent.LLMEvent, at agent.Delta, isDelta bool) {
	switch {
	case isDelta:
		d.shown = true
		d.block = at.Block
		d.gather(e, at)
		return
	case e.Type == agent.LLMTextStart, e.Type == agent.LLMThinkingStart, e.Type == agent.LLMFunctionCallStart:
		d.block++
	case e.Type == agent.LLMDone, e.Type == agent.LLMError:
		return
	}
	d.closeOpen()
	e.Partial = nil
	if e.Type == agent.LLMFunctionCallStart {
		d.shown = true
		e.ID = d.callID(d.block)
	}
	u := d.head
	u.Block, u.LLMEvent = max(d.block, 0), e
	d.queue(u)
	d.release()
}

func (d *deltas) gather(e agent.LLMEvent, at agent.Delta) {
	if d.open.LLMEvent.Type != e.Type || d.open.Block != at.Block {
		d.closeOpen()
		d.open = d.head
		d.open.Block, d.open.Offset, d.open.LLMEvent = at.Block, at.Offset, agent.LLMEvent{Type: e.Type}
	}
	d.text.WriteString(e.Delta)
	if d.timer == nil {
		d.flush()
	}
}

// flush sends what was gathered and begins a new window.
func (d *deltas) flush() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.text.Len() == 0 || d.held {
		return
	}
	offset := d.open.Offset + utf8.RuneCountInString(d.text.String())
	next := d.open
	next.Offset = offset
	d.closeOpen()
	d.open = next
	d.release()
	d.timer = d.clock.NewTimer(d.window)
}

// due fires when the window is over; nil if none is open.
func (d *deltas) due() <-chan time.Time {
	if d.timer == nil {
		return nil
	}
	return d.timer.C()
}

// closeOpen queues the text that was gathered, in pieces that fit.
func (d *deltas) closeOpen() {
	text, u := d.text.String(), d.open
	d.text.Reset()
	d.open = agent.MessageUpdate{}
	for text != "" {
		piece := text
		if len(piece) > deltaBytes {
			piece = cutText(piece, deltaBytes)
		}
		text = text[len(piece):]
		u.LLMEvent.Delta = piece
		d.queue(u)
		u.Offset += utf8.RuneCountInString(piece)
	}
}

func (d *deltas) queue(u agent.MessageUpdate) {
	d.rev++
	u.Rev = d.rev
	d.queued = append(d.queued, u)
}

// hold keeps updates back until they are released, because events that come
// before the message are not stored yet.
func (d *deltas) hold(held bool) {
	d.held = held
	if !held {
		d.flush()
		d.release()
	}
}

// release posts what is queued.
func (d *deltas) release() {
	if d.held {
		return
	}
	for _, u := range d.queued {
		d.post(u)
	}
	d.queued = nil
}

// end posts all that is left.
func (d *deltas) end() {
	d.closeOpen()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.held = false
	d.release()
}
